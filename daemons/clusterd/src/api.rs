//! What a running member is asked on its socket, beside what every daemon is ([`ebb_service`]).

use serde::Deserialize;

/// An order.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Command {
    /// `{"drain":"r0"}`: the back-end is to go off and stay so.
    Drain(String),
    /// `{"undrain":"r0"}`: it may go on again.
    Undrain(String),
    /// `{"forget":"m2"}`: the balancer has ended for good.
    Forget(String),
    /// `{"reload":{}}`: the file is read again.
    Reload {},
    /// `{"stop":{}}`: the member ends.
    Stop {},
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_order_is_one_of_a_few() {
        let read = |value| serde_json::from_value::<Command>(value).map_err(|e| e.to_string());
        assert_eq!(read(json!({ "drain": "r0" })), Ok(Command::Drain("r0".to_owned())));
        assert_eq!(read(json!({ "reload": {} })), Ok(Command::Reload {}));
        let said = read(json!({ "sing": {} })).expect_err("none");
        assert!(said.contains("`drain`, `undrain`, `forget`, `reload`, `stop`"), "{said}");
        for bad in [json!({}), json!({ "drain": 3 }), json!({ "stop": {}, "reload": {} })] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }
}
