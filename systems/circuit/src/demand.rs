//! Who wants to send how much to whom.

use ebb_scenario::{ScenarioError, matrix};
use rand::Rng;

/// Demand between the ports of a circuit switch, in what one link carries during a window.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    ports: usize,
    /// Row by row: from input `i` to output `j` at `i * ports + j`.
    amounts: Vec<f64>,
}

/// A demand that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum DemandError {
    /// Not as many numbers as pairs of ports.
    #[error("{0} numbers are not a square matrix of {1} ports")]
    Shape(usize, usize),
    /// A number that is negative, infinite or none at all.
    #[error(
        "{amount} from input {from} to output {to} is not valid; expected a finite number of \
        0 or more"
    )]
    Amount {
        /// The input.
        from: usize,
        /// The output.
        to: usize,
        /// What was given.
        amount: f64,
    },
}

impl Demand {
    /// A demand from its matrix, row by row.
    ///
    /// # Errors
    /// When it is not square, or a number is negative or not finite.
    pub fn new(ports: usize, amounts: Vec<f64>) -> Result<Demand, DemandError> {
        if amounts.len() != ports * ports {
            return Err(DemandError::Shape(amounts.len(), ports));
        }
        match amounts.iter().position(|amount| !amount.is_finite() || *amount < 0.0) {
            None => Ok(Demand { ports, amounts }),
            Some(at) => {
                let (from, to) = (at / ports, at % ports);
                Err(DemandError::Amount { from, to, amount: amounts[at] })
            }
        }
    }

    /// A demand from a function of input and output.
    ///
    /// # Panics
    /// When the function returns what is no amount.
    pub fn from_fn(ports: usize, mut amount: impl FnMut(usize, usize) -> f64) -> Demand {
        let amounts = (0..ports * ports).map(|at| amount(at / ports, at % ports)).collect();
        Demand::new(ports, amounts).expect("a function of amounts")
    }

    /// Reads a table: a row of numbers for each input, a column for each output; the first line and the
    /// first column may have the ports' names.
    ///
    /// # Errors
    /// With file, line and field where it is not a square matrix of amounts.
    pub fn from_csv(file: &str, bytes: &[u8]) -> Result<Demand, ScenarioError> {
        let square = matrix::square(file, bytes)?;
        let ports = square.size;
        if !(2..=PORTS_MAX).contains(&ports) {
            return Err(ScenarioError {
                file: file.to_owned(),
                line: None,
                field: None,
                message: format!("there are {ports} rows; expected 2 to {PORTS_MAX} ports"),
                remedy: "expected a row of numbers for each input and a column for each output"
                    .to_owned(),
            });
        }
        if let Some(at) = square.values.iter().position(|amount| *amount < 0.0) {
            let message = format!("{} is negative", square.values[at]);
            return Err(matrix::fault(
                file,
                (at / ports, at % ports),
                &message,
                "expected 0 or more",
            ));
        }
        Ok(Demand { ports, amounts: square.values })
    }

    /// Demand as a switch sees it in its queues: bytes that wait, for a link that carries
    /// `window_bytes` during a window.
    ///
    /// # Errors
    /// When the matrix is not square or the window carries nothing.
    pub fn from_queues(
        ports: usize,
        bytes: &[u64],
        window_bytes: f64,
    ) -> Result<Demand, DemandError> {
        Demand::new(ports, bytes.iter().map(|bytes| *bytes as f64 / window_bytes).collect())
    }

    /// Everybody to everybody else, each link full.
    pub fn uniform(ports: usize) -> Demand {
        let share = 1.0 / (ports as f64 - 1.0);
        Demand::from_fn(ports, |from, to| if from == to { 0.0 } else { share })
    }

    /// Each link full: a share `large_share` of it in `large` flows per port, the rest in `small`
    /// ones, each flow a matching drawn at random (without sending to oneself); Liu et al., CoNEXT
    /// 2015, section 5, have 4 large and 12 small.
    pub fn sparse(
        ports: usize,
        large: usize,
        small: usize,
        large_share: f64,
        rng: &mut impl Rng,
    ) -> Demand {
        let mut amounts = vec![0.0; ports * ports];
        for flow in 0..large + small {
            let amount = if flow < large {
                large_share / large as f64
            } else {
                (1.0 - large_share) / small as f64
            };
            for (from, to) in derangement(ports, rng).into_iter().enumerate() {
                amounts[from * ports + to] += amount;
            }
        }
        Demand { ports, amounts }
    }

    /// Every port sends `share` of its traffic to the port `hot` and the rest evenly to all others,
    /// as much as the hot port's link takes; the hot port itself sends evenly.
    pub fn hot_spot(ports: usize, hot: usize, share: f64) -> Demand {
        let others = ports as f64 - 1.0;
        let to_hot = (1.0 - share) / others + share;
        let load = 1.0 / (others * to_hot);
        Demand::from_fn(ports, |from, to| match (from, to) {
            _ if from == to => 0.0,
            _ if from == hot => load / others,
            _ if to == hot => load * to_hot,
            _ => load * (1.0 - share) / others,
        })
    }

    /// The same as someone would estimate it who errs by up to `error` of each amount, either way.
    #[must_use]
    pub fn estimated(&self, error: f64, rng: &mut impl Rng) -> Demand {
        let blur = |amount: &f64| amount * (1.0 + error * rng.random_range(-1.0..=1.0)).max(0.0);
        Demand { ports: self.ports, amounts: self.amounts.iter().map(blur).collect() }
    }

    /// Number of ports.
    pub fn ports(&self) -> usize {
        self.ports
    }

    /// From input `from` to output `to`.
    pub fn amount(&self, from: usize, to: usize) -> f64 {
        self.amounts[from * self.ports + to]
    }

    /// The matrix, row by row.
    pub fn amounts(&self) -> &[f64] {
        &self.amounts
    }

    /// All of it.
    pub fn total(&self) -> f64 {
        self.amounts.iter().sum()
    }

    /// The most that one port sends or receives.
    pub fn busiest(&self) -> f64 {
        let (rows, columns) = sums(self.ports, &self.amounts);
        rows.into_iter().chain(columns).fold(0.0, f64::max)
    }
}

/// Most ports that a demand may have.
pub const PORTS_MAX: usize = 1024;

/// Sums of the rows and of the columns of a square matrix.
pub(crate) fn sums(ports: usize, matrix: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let mut columns = vec![0.0; ports];
    let mut rows = Vec::with_capacity(ports);
    for row in matrix.chunks_exact(ports) {
        rows.push(row.iter().sum());
        columns.iter_mut().zip(row).for_each(|(sum, amount)| *sum += amount);
    }
    (rows, columns)
}

/// A permutation without a fixed point, each as likely as every other.
fn derangement(ports: usize, rng: &mut impl Rng) -> Vec<usize> {
    loop {
        let mut order: Vec<usize> = (0..ports).collect();
        for last in (1..ports).rev() {
            order.swap(last, rng.random_range(0..=last));
        }
        if ports < 2 || order.iter().enumerate().all(|(from, to)| from != *to) {
            return order;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_that_is_none_is_refused_with_its_place() {
        let read = |text: &str| Demand::from_csv("d.csv", text.as_bytes()).unwrap_err().to_string();
        assert!(read("0,1\n1,0\n1,1\n").contains("3 rows of 2 columns"));
        assert!(read("0,1\n-1,0\n").starts_with("d.csv: field `row 2, column 1`: -1 is negative"));
        assert!(read("0,inf\n1,0\n").contains("not a finite number"));
        assert!(read("1\n").contains("2 to 1024 ports"));
        assert!(Demand::new(2, vec![0.0, f64::NAN, 0.0, 0.0]).is_err());
    }

    #[test]
    fn racks_may_have_names() {
        let named = Demand::from_csv("d.csv", b",a,b\na,0,0.5\nb,0.25,0\n").expect("read");
        assert_eq!((named.ports(), named.amount(0, 1), named.total()), (2, 0.5, 0.75));
    }

    #[test]
    fn demands_fill_the_links_they_say() {
        let mut rng = ebb_des::Seed(1).stream("demand");
        for demand in [
            Demand::uniform(23),
            Demand::sparse(23, 4, 12, 0.8, &mut rng),
            Demand::hot_spot(23, 5, 1.0 / 3.0),
        ] {
            assert!((demand.busiest() - 1.0).abs() < 1e-9, "{}", demand.busiest());
            assert!((0..23).all(|port| demand.amount(port, port) == 0.0));
        }
    }
}
