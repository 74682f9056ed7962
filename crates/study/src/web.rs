//! Files behind an address: what a scenario names as `http://...` is fetched once for a job.
//!
//! Room: an address to bytes. A Prometheus is asked for what a question leaves open: without a time, for the
//! last 30 days by its own clock. What the bytes mean is the affair of whoever reads them.

use std::time::Duration;

/// How long an answer may take.
const WAIT: Duration = Duration::from_secs(60);
/// Bytes of an answer, at most.
const BYTES_MAX: u64 = 1 << 28;
/// Days that are asked for, and seconds from value to value: fewer values than the 11,000 that a Prometheus
/// gives out at most.
const DAYS: f64 = 30.0;
const STEP_S: f64 = 300.0;

/// What is behind an address.
///
/// # Errors
/// In words.
pub(crate) fn fetch(address: &str) -> Result<Vec<u8>, String> {
    let (place, pairs) = split(address);
    let given = |name: &str| pairs.iter().any(|(have, _)| have == name);
    if !given("query") || (given("start") && given("end") && given("step")) {
        return get(&place, &pairs);
    }
    let host = place.split("/api/v1/").next().unwrap_or(&place).trim_end_matches('/');
    let now = match pairs.iter().find(|(name, _)| name == "end") {
        Some((_, end)) => {
            end.parse().map_err(|_| format!("`end={end}` is no number of seconds"))?
        }
        None => clock(host)?,
    };
    let mut asked = pairs.clone();
    for (name, value) in [("start", now - DAYS * 86_400.0), ("end", now), ("step", STEP_S)] {
        if !given(name) {
            asked.push((name.to_owned(), value.to_string()));
        }
    }
    get(&format!("{host}/api/v1/query_range"), &asked)
}

/// What a Prometheus takes the time to be.
fn clock(host: &str) -> Result<f64, String> {
    let asked = [("query".to_owned(), "time()".to_owned())];
    let answer = get(&format!("{host}/api/v1/query"), &asked)?;
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap_or_default();
    let now = answer["data"]["result"][1].as_str().and_then(|text| text.parse::<f64>().ok());
    // Whole minutes: the same question a moment later has the same answer more often.
    let minutes = now.map(|now| (now / 60.0).floor() * 60.0);
    minutes.ok_or_else(|| "does not answer as a Prometheus does".to_owned())
}

/// The place, and names with values, without `%20` and the like.
fn split(address: &str) -> (String, Vec<(String, String)>) {
    let (place, question) = address.split_once('?').unwrap_or((address, ""));
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name.to_owned(), plain(value))
    };
    let pairs = question.split('&').filter(|text| !text.is_empty()).map(pair).collect();
    (place.to_owned(), pairs)
}

/// Without `%20` and the like.
fn plain(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        match code.filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn get(place: &str, pairs: &[(String, String)]) -> Result<Vec<u8>, String> {
    let agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(WAIT))
        .build()
        .new_agent();
    let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let failed = |error: ureq::Error| format!("cannot be fetched: {error}");
    let mut answer = agent.get(place).query_pairs(pairs).call().map_err(failed)?;
    let status = answer.status();
    let body = answer.body_mut().with_config().limit(BYTES_MAX).read_to_vec().map_err(failed)?;
    if !status.is_success() {
        let text: String = String::from_utf8_lossy(&body).chars().take(300).collect();
        return Err(format!("cannot be fetched: the server answers {status}: {}", text.trim()));
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_read_as_people_and_browsers_write_them() {
        let asked = split("http://h:9090?query=rate(rx{device=\"eth0\"}[5m])&step=60");
        assert_eq!(asked.0, "http://h:9090");
        assert_eq!(asked.1[0], ("query".into(), "rate(rx{device=\"eth0\"}[5m])".into()));
        assert_eq!(asked.1[1], ("step".into(), "60".into()));
        assert_eq!(split("http://h/a?query=rate%28x%5B5m%5D%29%20%3e 1").1[0].1, "rate(x[5m]) > 1");
        assert_eq!(plain("5 % 2%"), "5 % 2%");
    }
}
