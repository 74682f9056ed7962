//! The twin decides as the live router: through the same objects, from the same observations.

use ebb_control::policies::{Settings, named};
use ebb_control::{Action, Decision, Observation, Recording, replay};
use ebb_scenario::Silent;

use crate::twin;

fn text(policy: &str) -> String {
    format!("load = 0.3\nduration_s = 0.05\n[policy]\nname = \"{policy}\"\n")
}

#[test]
fn what_the_twin_saw_leads_a_live_policy_to_the_same_actions() {
    for name in ["poll", "napi", "powersave"] {
        let twin = twin(&text(name), 5);
        let mut lines = Vec::new();
        let mut policy =
            Recording::new(twin.policy(), |decision: &Decision<Observation, Action>| {
                lines.push(serde_json::to_string(decision).expect("serializable"));
            });
        let outcome = twin.run(&mut policy, &Silent).expect("not stopped");
        assert_eq!(lines.len() as u64, outcome.decisions);
        let read = |line: &String| serde_json::from_str(line).expect("readable");
        let record: Vec<Decision<Observation, Action>> = lines.iter().map(read).collect();
        let mut live = named(name, twin.limits(), &Settings::default()).expect("known");
        assert_eq!(replay(&mut *live, record), Ok(lines.len()));
        assert_eq!(twin.replay(&lines.join("\n")), Ok(lines.len()));
    }
}

#[test]
fn a_record_of_another_policy_diverges() {
    let line = r#"{"at":0,"seen":{"queue_len":0,"own_queue_len":0,"received":0},"action":{"point":{"cores":3,"frequency":0,"depth":"shallow"},"idle":"halt"}}"#;
    let error = twin(&text("powersave"), 1).replay(line).expect_err("differs").to_string();
    assert!(error.contains("decision 0 differs"), "{error}");
    let error = twin(&text("powersave"), 1).replay("{").expect_err("no JSON").to_string();
    assert!(error.contains("line 1"), "{error}");
}
