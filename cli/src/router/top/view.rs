//! What the keys have chosen.

use ebb_control::policies::NAMES;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// One of the two tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Focus {
    #[default]
    Workers,
    Ports,
}

/// By which column a table is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// Index among all columns of the table.
    pub(super) column: usize,
    pub(super) descending: bool,
}

/// What is shown, and what is being chosen.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct View {
    /// The table that the arrows act on; it has the room where there is not enough for both.
    pub(super) focus: Focus,
    pub(super) workers: Order,
    pub(super) ports: Order,
    /// Columns of the table in focus that fitted when it was last drawn.
    pub(super) visible: Vec<usize>,
    /// The policy under the cursor while one is being chosen, by its index in [`NAMES`].
    pub(super) choosing: Option<usize>,
    /// What came of the last choice.
    pub(super) message: Option<String>,
}

/// What is to be done about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Nothing,
    Leave,
    SetMode(&'static str),
}

/// Tables begin in the router's own order.
impl Default for View {
    fn default() -> View {
        let order = Order { column: 0, descending: false };
        View {
            focus: Focus::default(),
            workers: order,
            ports: order,
            visible: Vec::new(),
            choosing: None,
            message: None,
        }
    }
}

impl View {
    /// Takes a key while `mode` is in force.
    pub(super) fn key(&mut self, key: KeyEvent, mode: &str) -> Act {
        if key.is_release() {
            return Act::Nothing;
        }
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Act::Leave;
        }
        self.message = None;
        match self.choosing {
            Some(at) => self.choose(key.code, at),
            None => self.look(key.code, mode),
        }
    }

    fn choose(&mut self, key: KeyCode, at: usize) -> Act {
        let last = NAMES.len() - 1;
        self.choosing = match key {
            KeyCode::Left | KeyCode::Up => Some(at.checked_sub(1).unwrap_or(last)),
            KeyCode::Right | KeyCode::Down | KeyCode::Char('m') => Some((at + 1) % NAMES.len()),
            KeyCode::Enter => {
                self.choosing = None;
                return Act::SetMode(NAMES[at].0);
            }
            KeyCode::Esc | KeyCode::Char('q') => None,
            _ => Some(at),
        };
        Act::Nothing
    }

    fn look(&mut self, key: KeyCode, mode: &str) -> Act {
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Act::Leave,
            KeyCode::Char('m') => {
                let now = NAMES.iter().position(|(name, _)| *name == mode);
                self.choosing = Some(now.unwrap_or(0));
            }
            KeyCode::Char('p') => {
                self.focus = match self.focus {
                    Focus::Workers => Focus::Ports,
                    Focus::Ports => Focus::Workers,
                };
            }
            KeyCode::Left => self.turn(-1),
            KeyCode::Right => self.turn(1),
            KeyCode::Up => self.order().descending = false,
            KeyCode::Down => self.order().descending = true,
            _ => {}
        }
        Act::Nothing
    }

    /// The order of the table in focus.
    fn order(&mut self) -> &mut Order {
        match self.focus {
            Focus::Workers => &mut self.workers,
            Focus::Ports => &mut self.ports,
        }
    }

    /// Sorts by the next of the columns that can be seen, the largest first but for names.
    fn turn(&mut self, by: isize) {
        let column = self.order().column;
        let (place, count) =
            (self.visible.iter().position(|each| *each == column), self.visible.len() as isize);
        if count > 0 {
            let next = (place.unwrap_or(0) as isize + by).rem_euclid(count);
            let column = self.visible[next as usize];
            *self.order() = Order { column, descending: column > 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(view: &mut View, keys: &[KeyCode]) -> Vec<Act> {
        keys.iter().map(|key| view.key(KeyEvent::from(*key), "napi")).collect()
    }

    #[test]
    fn a_policy_is_chosen_with_arrows_and_confirmed() {
        let mut view = View::default();
        let acts = press(&mut view, &[KeyCode::Char('m'), KeyCode::Right, KeyCode::Enter]);
        assert_eq!(acts, [Act::Nothing, Act::Nothing, Act::SetMode("powersave")]);
        assert_eq!(view.choosing, None);
        let acts = press(&mut view, &[KeyCode::Char('m'), KeyCode::Right, KeyCode::Esc]);
        assert_eq!(acts, [Act::Nothing; 3], "nothing is changed by looking at the choice");
        assert_eq!(press(&mut view, &[KeyCode::Char('m'), KeyCode::Left, KeyCode::Left])[2], {
            assert_eq!(view.choosing, Some(NAMES.len() - 1));
            Act::Nothing
        });
    }

    #[test]
    fn one_key_leaves_and_control_c_always_does() {
        let mut view = View::default();
        assert_eq!(press(&mut view, &[KeyCode::Char('q')]), [Act::Leave]);
        press(&mut view, &[KeyCode::Char('m')]);
        let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(view.key(control, "napi"), Act::Leave);
    }

    #[test]
    fn arrows_sort_the_table_in_focus_by_what_can_be_seen() {
        let mut view = View { visible: vec![0, 2, 5], ..View::default() };
        press(&mut view, &[KeyCode::Right]);
        assert_eq!(view.workers, Order { column: 2, descending: true });
        press(&mut view, &[KeyCode::Up, KeyCode::Char('p'), KeyCode::Left]);
        assert_eq!(view.workers, Order { column: 2, descending: false });
        assert_eq!(view.ports, Order { column: 5, descending: true });
        press(&mut view, &[KeyCode::Right]);
        assert_eq!(view.ports, Order { column: 0, descending: false });
    }
}
