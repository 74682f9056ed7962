//! What the keys have chosen.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::panel::Panel;

/// By which column a table is sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Index among all columns of the table.
    pub column: usize,
    /// The largest first.
    pub descending: bool,
}

/// What is shown, and what is being chosen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// The table that the arrows act on; it has the room where there is not enough for all.
    pub focus: usize,
    /// The table that comes after it, of those that had something to show when they were last drawn.
    pub next: usize,
    /// How each table is sorted; they begin in the daemon's own order.
    pub orders: Vec<Order>,
    /// Columns of the table in focus that fitted when it was last drawn.
    pub visible: Vec<usize>,
    /// What can be chosen.
    pub modes: Vec<&'static str>,
    /// The mode under the cursor while one is being chosen.
    pub choosing: Option<usize>,
    /// What came of the last choice.
    pub message: Option<String>,
}

/// What is to be done about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Nothing,
    Leave,
    Choose(&'static str),
}

impl View {
    /// Of a panel, with nothing chosen.
    pub fn of(panel: &Panel) -> View {
        View {
            next: 1 % panel.tables.len(),
            orders: vec![Order::default(); panel.tables.len()],
            modes: panel.modes.map_or_else(Vec::new, |modes| (modes.names)()),
            ..View::default()
        }
    }

    /// Takes a key while `mode` is in force.
    pub fn key(&mut self, key: KeyEvent, mode: &str) -> Act {
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
        let count = self.modes.len();
        self.choosing = match key {
            KeyCode::Left | KeyCode::Up => Some((at + count - 1) % count),
            KeyCode::Right | KeyCode::Down | KeyCode::Char('m') => Some((at + 1) % count),
            KeyCode::Enter => {
                self.choosing = None;
                return Act::Choose(self.modes[at]);
            }
            KeyCode::Esc | KeyCode::Char('q') => None,
            _ => Some(at),
        };
        Act::Nothing
    }

    fn look(&mut self, key: KeyCode, mode: &str) -> Act {
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Act::Leave,
            KeyCode::Char('m') if !self.modes.is_empty() => {
                let now = self.modes.iter().position(|name| *name == mode);
                self.choosing = Some(now.unwrap_or(0));
            }
            KeyCode::Char('p') => self.focus = self.next,
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
        &mut self.orders[self.focus]
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

    fn view() -> View {
        let orders = vec![Order::default(); 2];
        View {
            next: 1,
            orders,
            modes: vec!["poll", "napi", "powersave", "model"],
            ..View::default()
        }
    }

    fn press(view: &mut View, keys: &[KeyCode]) -> Vec<Act> {
        keys.iter().map(|key| view.key(KeyEvent::from(*key), "napi")).collect()
    }

    #[test]
    fn a_policy_is_chosen_with_arrows_and_confirmed() {
        let mut view = view();
        let acts = press(&mut view, &[KeyCode::Char('m'), KeyCode::Right, KeyCode::Enter]);
        assert_eq!(acts, [Act::Nothing, Act::Nothing, Act::Choose("powersave")]);
        assert_eq!(view.choosing, None);
        let acts = press(&mut view, &[KeyCode::Char('m'), KeyCode::Right, KeyCode::Esc]);
        assert_eq!(acts, [Act::Nothing; 3], "nothing is changed by looking at the choice");
        assert_eq!(press(&mut view, &[KeyCode::Char('m'), KeyCode::Left, KeyCode::Left])[2], {
            assert_eq!(view.choosing, Some(3));
            Act::Nothing
        });
    }

    #[test]
    fn one_key_leaves_and_control_c_always_does() {
        let mut view = view();
        assert_eq!(press(&mut view, &[KeyCode::Char('q')]), [Act::Leave]);
        press(&mut view, &[KeyCode::Char('m')]);
        let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(view.key(control, "napi"), Act::Leave);
    }

    #[test]
    fn arrows_sort_the_table_in_focus_by_what_can_be_seen() {
        let mut view = View { visible: vec![0, 2, 5], ..view() };
        press(&mut view, &[KeyCode::Right]);
        assert_eq!(view.orders[0], Order { column: 2, descending: true });
        press(&mut view, &[KeyCode::Up, KeyCode::Char('p'), KeyCode::Left]);
        assert_eq!(view.orders[0], Order { column: 2, descending: false });
        assert_eq!(view.orders[1], Order { column: 5, descending: true });
        press(&mut view, &[KeyCode::Right]);
        assert_eq!(view.orders[1], Order { column: 0, descending: false });
    }
}
