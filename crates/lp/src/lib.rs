//! Linear and mixed-integer programs that grow while they are solved: columns and rows are added
//! between solves, and each solve begins where the last one ended.
//!
//! Room: the only crate that knows a solver (HiGHS). It knows nothing of what a program means.
//!
//! ```
//! use ebb_lp::Program;
//! let mut program = Program::linear();
//! let x = program.column(1.0, 0.0, 4.0, &[]);
//! let row = program.row(3.0, f64::INFINITY, &[(x, 1.0)]);
//! let solution = program.solve().unwrap();
//! assert_eq!((solution.objective, solution.value(x), solution.price(row)), (3.0, 3.0, 1.0));
//! program.column(0.5, 0.0, f64::INFINITY, &[(row, 1.0)]);
//! assert_eq!(program.solve().unwrap().objective, 1.5);
//! ```

mod interrupt;

use std::fmt;

use highs::{Col, ColProblem, HighsModelStatus, HighsStatus, Model, Row, Sense, SolvedModel};

/// A column (variable) of a [`Program`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Column(usize);

/// A row (constraint) of a [`Program`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Constraint(usize);

/// Why there is no solution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LpError {
    /// No values satisfy all rows.
    #[error("the program is infeasible")]
    Infeasible,
    /// The objective falls for ever.
    #[error("the program is unbounded")]
    Unbounded,
    /// The solver gave up.
    #[error("the solver stopped: {0}")]
    Stopped(String),
    /// Ended because nobody wants its result any more ([`Program::stop_when`]).
    #[error("interrupted")]
    Interrupted,
}

/// The best values found.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// The objective's value.
    pub objective: f64,
    values: Vec<f64>,
    prices: Vec<f64>,
    /// Integer programs: whether the solver proved that nothing is better.
    pub proven: bool,
    /// Integer programs: relative gap between the value and the best bound.
    pub gap: f64,
}

impl Solution {
    /// The value of a column.
    pub fn value(&self, column: Column) -> f64 {
        self.values[column.0]
    }

    /// The shadow price of a row: by how much the objective rises per unit that its bound rises.
    pub fn price(&self, row: Constraint) -> f64 {
        self.prices[row.0]
    }
}

/// The solver's least tolerance of linear programs.
const TIGHTEST: f64 = 1e-10;
/// Tolerances tried where rounding makes the tightest unreachable.
const LOOSER: [f64; 3] = [1e-9, 1e-8, 1e-7];

/// Says whether to end a solve.
type Stopped<'a> = Box<dyn Fn() -> bool + 'a>;

/// A program to be minimised.
pub struct Program<'a> {
    /// Taken only while a solve runs.
    model: Option<Model>,
    columns: Vec<Col>,
    rows: Vec<Row>,
    integer: bool,
    stopped: Option<Stopped<'a>>,
}

impl fmt::Debug for Program<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (columns, rows) = self.size();
        f.debug_struct("Program")
            .field("columns", &columns)
            .field("rows", &rows)
            .finish_non_exhaustive()
    }
}

impl<'a> Program<'a> {
    /// A linear program, solved by the simplex method to the tightest tolerances (1e-10).
    pub fn linear() -> Program<'a> {
        let mut program = Program::empty(false);
        program.option("presolve", "off");
        program.option("solver", "simplex");
        program.option_f64("primal_feasibility_tolerance", TIGHTEST);
        program.option_f64("dual_feasibility_tolerance", TIGHTEST);
        program
    }

    /// A program with integer columns, ended when the relative gap is below `gap` or after
    /// `nodes_max` nodes of the search tree, which makes it the same on every machine.
    pub fn integer(gap: f64, nodes_max: u32) -> Program<'a> {
        let mut program = Program::empty(true);
        program.option_f64("mip_rel_gap", gap);
        program.model().set_option("mip_max_nodes", i32::try_from(nodes_max).unwrap_or(i32::MAX));
        program
    }

    /// Ends a solve with [`LpError::Interrupted`] soon after `stopped` has become true, which is asked at
    /// every step of the simplex method and every node of a search tree.
    pub fn stop_when(&mut self, stopped: impl Fn() -> bool + 'a) {
        self.stopped = Some(Box::new(stopped));
    }

    fn empty(integer: bool) -> Program<'a> {
        let mut model = ColProblem::default().optimise(Sense::Minimise);
        model.make_quiet();
        model.set_option("threads", 1);
        model.set_option("parallel", "off");
        Program {
            model: Some(model),
            columns: Vec::new(),
            rows: Vec::new(),
            integer,
            stopped: None,
        }
    }

    fn model(&mut self) -> &mut Model {
        self.model.as_mut().expect("no solve is running")
    }

    /// Sets a text option of the solver.
    pub fn option(&mut self, name: &str, value: &str) {
        self.model().set_option(name, value);
    }

    fn option_f64(&mut self, name: &str, value: f64) {
        self.model().set_option(name, value);
    }

    /// Adds a column between `lower` and `upper` with its entries in rows there are.
    pub fn column(
        &mut self,
        cost: f64,
        lower: f64,
        upper: f64,
        entries: &[(Constraint, f64)],
    ) -> Column {
        self.any_column(cost, (lower, upper), entries, false)
    }

    /// Adds a column whose value is whole.
    ///
    /// # Panics
    /// When the program is linear.
    pub fn integer_column(
        &mut self,
        cost: f64,
        lower: f64,
        upper: f64,
        entries: &[(Constraint, f64)],
    ) -> Column {
        assert!(self.integer, "a linear program has no integer columns");
        self.any_column(cost, (lower, upper), entries, true)
    }

    fn any_column(
        &mut self,
        cost: f64,
        (lower, upper): (f64, f64),
        entries: &[(Constraint, f64)],
        whole: bool,
    ) -> Column {
        let entries: Vec<_> =
            entries.iter().map(|&(row, value)| (self.rows[row.0], value)).collect();
        let model = self.model();
        let column = model.add_column_with_integrality(cost, lower..=upper, entries, whole);
        self.columns.push(column);
        Column(self.columns.len() - 1)
    }

    /// Adds a row: `lower` <= sum of entries <= `upper`.
    pub fn row(&mut self, lower: f64, upper: f64, entries: &[(Column, f64)]) -> Constraint {
        let entries: Vec<_> =
            entries.iter().map(|&(column, value)| (self.columns[column.0], value)).collect();
        let row = self.model().add_row(lower..=upper, entries);
        self.rows.push(row);
        Constraint(self.rows.len() - 1)
    }

    /// Changes what a unit of a column costs.
    pub fn set_cost(&mut self, column: Column, cost: f64) {
        let column = self.columns[column.0];
        self.model().change_column_cost(column, cost);
    }

    /// Changes the bounds of a column.
    pub fn set_bounds(&mut self, column: Column, lower: f64, upper: f64) {
        let column = self.columns[column.0];
        self.model().change_column_bounds(column, lower..=upper);
    }

    /// How many columns and rows there are.
    pub fn size(&self) -> (usize, usize) {
        (self.columns.len(), self.rows.len())
    }

    /// Minimises the objective, beginning at the last solution.
    ///
    /// # Errors
    /// When there is no solution, the solver gives up, is stopped or calls the program malformed; after
    /// the last of these there is no further answer.
    pub fn solve(&mut self) -> Result<Solution, LpError> {
        let malformed = |_| LpError::Stopped("it rejects the program as malformed".to_owned());
        let again = || LpError::Stopped("it failed before".to_owned());
        let model = self.model.take().ok_or_else(again)?;
        let mut solved = self.run(model).map_err(malformed)?;
        for tolerance in LOOSER {
            if self.integer || solved.status() != HighsModelStatus::Unknown {
                break;
            }
            let mut model = Model::from(solved);
            model.set_option("primal_feasibility_tolerance", tolerance);
            model.set_option("dual_feasibility_tolerance", tolerance);
            solved = self.run(model).map_err(malformed)?;
        }
        let status = solved.status();
        let found = solved.get_solution();
        let limited = matches!(
            status,
            HighsModelStatus::ReachedIterationLimit
                | HighsModelStatus::ReachedTimeLimit
                | HighsModelStatus::ReachedSolutionLimit
        );
        let usable = limited && self.integer && solved.mip_gap().is_finite();
        let result = match status {
            HighsModelStatus::Optimal | HighsModelStatus::ModelEmpty => Ok(true),
            _ if usable => Ok(false),
            HighsModelStatus::Infeasible => Err(LpError::Infeasible),
            HighsModelStatus::Unbounded | HighsModelStatus::UnboundedOrInfeasible => {
                Err(LpError::Unbounded)
            }
            HighsModelStatus::ReachedInterrupt => Err(LpError::Interrupted),
            other => Err(LpError::Stopped(format!("{other:?}"))),
        };
        let result = result.map(|proven| Solution {
            objective: solved.objective_value(),
            values: found.columns().to_vec(),
            prices: found.dual_rows().to_vec(),
            proven,
            gap: if self.integer { solved.mip_gap() } else { 0.0 },
        });
        let mut model = Model::from(solved);
        if !self.integer {
            model.set_option("primal_feasibility_tolerance", TIGHTEST);
            model.set_option("dual_feasibility_tolerance", TIGHTEST);
        }
        self.model = Some(model);
        result
    }

    /// One run of the solver, which asks meanwhile whether to end.
    fn run(&self, model: Model) -> Result<SolvedModel, HighsStatus> {
        match &self.stopped {
            Some(stopped) => interrupt::run(model, stopped),
            None => model.try_solve(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_and_rows_may_come_later() {
        let mut program = Program::linear();
        let x = program.column(-1.0, 0.0, 10.0, &[]);
        let y = program.column(-2.0, 0.0, 10.0, &[]);
        let sum = program.row(f64::NEG_INFINITY, 12.0, &[(x, 1.0), (y, 1.0)]);
        let first = program.solve().expect("solved");
        assert_eq!((first.value(x), first.value(y), first.price(sum)), (2.0, 10.0, -1.0));
        program.row(f64::NEG_INFINITY, 3.0, &[(y, 1.0)]);
        let second = program.solve().expect("solved");
        assert_eq!((second.value(x), second.value(y)), (9.0, 3.0));
        program.set_bounds(x, 0.0, 1.0);
        program.set_cost(y, 1.0);
        assert_eq!(program.solve().expect("solved").objective, -1.0);
        assert_eq!(program.size(), (2, 2));
    }

    #[test]
    fn what_has_no_solution_says_so() {
        let mut program = Program::linear();
        let x = program.column(1.0, 0.0, 1.0, &[]);
        program.row(2.0, f64::INFINITY, &[(x, 1.0)]);
        assert_eq!(program.solve(), Err(LpError::Infeasible));
        let mut program = Program::linear();
        program.column(-1.0, 0.0, f64::INFINITY, &[]);
        assert_eq!(program.solve(), Err(LpError::Unbounded));
    }

    /// Columns that cover many random rows, of which whole ones take a search of hours.
    fn covering<'a>(mut program: Program<'a>, size: usize, whole: bool) -> Program<'a> {
        let rows: Vec<_> = (0..size).map(|_| program.row(1.0, f64::INFINITY, &[])).collect();
        let mut state = 1_u64;
        for _ in 0..size {
            let mut entries = Vec::new();
            for &row in &rows {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if state >> 60 == 0 {
                    entries.push((row, 1.0 + (state >> 32 & 7) as f64));
                }
            }
            let cost = 1.0 + (state >> 40 & 15) as f64 / 16.0;
            match whole {
                true => program.integer_column(cost, 0.0, 1.0, &entries),
                false => program.column(cost, 0.0, 1.0, &entries),
            };
        }
        program
    }

    #[test]
    fn a_solve_ends_when_it_is_told_to() {
        for (program, size, whole) in
            [(Program::linear(), 600, false), (Program::integer(0.0, u32::MAX), 250, true)]
        {
            let asked = std::cell::Cell::new(0);
            let mut program = covering(program, size, whole);
            program.stop_when(|| {
                asked.set(asked.get() + 1);
                asked.get() > 20
            });
            assert_eq!(program.solve(), Err(LpError::Interrupted), "whole: {whole}");
            assert!(asked.get() < 100, "asked {} times", asked.get());
        }
    }

    #[test]
    fn a_solve_that_was_stopped_can_go_on() {
        let stop = std::cell::Cell::new(true);
        let mut program = covering(Program::linear(), 100, false);
        program.stop_when(|| stop.get());
        assert_eq!(program.solve(), Err(LpError::Interrupted));
        stop.set(false);
        let after = program.solve().expect("solved").objective;
        let whole = covering(Program::linear(), 100, false).solve().expect("solved").objective;
        assert!((after - whole).abs() < 1e-6 * whole, "{after} {whole}");
    }

    /// A knapsack whose linear optimum is not whole.
    #[test]
    fn whole_columns_stay_whole() {
        let mut program = Program::integer(0.0, 1000);
        let items = [(10.0, 5.0), (6.0, 4.0), (5.0, 3.0)];
        let columns: Vec<_> =
            items.iter().map(|(value, _)| program.integer_column(-value, 0.0, 1.0, &[])).collect();
        let entries: Vec<_> =
            columns.iter().zip(&items).map(|(&column, item)| (column, item.1)).collect();
        program.row(f64::NEG_INFINITY, 8.0, &entries);
        let solution = program.solve().expect("solved");
        assert!(solution.proven && (solution.objective + 15.0).abs() < 1e-9);
        assert!((solution.value(columns[0]) - 1.0).abs() < 1e-9);
        assert!(solution.value(columns[1]).abs() < 1e-9);
    }
}
