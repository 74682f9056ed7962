//! Tables that come from elsewhere, such as files, held to the same proof as any other.

use super::{Options, Routing, RoutingError};
use crate::tables::Tables;
use crate::topology::Topology;

/// Tables as they were given, for the topology they were given with.
#[derive(Clone, Debug)]
pub struct Given(pub Tables);

impl Routing for Given {
    fn name(&self) -> &'static str {
        "given"
    }

    fn summary(&self) -> &'static str {
        "tables read from files"
    }

    fn propose(&self, _: &Topology, _: &Options) -> Result<Tables, RoutingError> {
        Ok(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::{route, up_down::UpDown};
    use crate::topology::{SwitchId, grid};

    #[test]
    fn given_tables_are_proved_too() {
        let torus = grid::torus(&[4, 4], 1).expect("a torus");
        let (mut tables, _) = route(&UpDown, &torus, &Options::default()).expect("sound");
        assert!(route(&Given(tables.clone()), &torus, &Options::default()).is_ok());
        tables.forwarding.set(SwitchId(3), torus.hosts()[9].lid, None);
        let refused = route(&Given(tables), &torus, &Options::default()).expect_err("a hole");
        assert!(refused.to_string().contains("do not reach"), "{refused}");
    }
}
