//! What the host tells of nodes as JSON, and takes back.

use crate::host;
use crate::json::{self, Object, Value};
use crate::status::{Code, Error, Result};

/// Names of some thousand nodes fit; for more the host is asked twice.
const USUAL_SIZE: usize = 64 * 1024;

const MALFORMED: Error = Error::new("malformed JSON from the host");

/// A node's score, to be normalized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeScore {
    pub name: String,
    pub score: i64,
}

/// The names of the nodes that passed Filter. Ask in prescore.
pub fn filtered_nodes() -> Result<Vec<String>> {
    // SAFETY: the host keeps to the buffer and its limit.
    let text = host::read(USUAL_SIZE, |buffer, limit| unsafe { host::filtered_node_list(buffer, limit) });
    json::strings(&text).map_err(|_| MALFORMED)
}

/// What Filter said of each node. Ask in postfilter.
pub fn node_statuses() -> Result<Vec<(String, Code)>> {
    // SAFETY: the host keeps to the buffer and its limit.
    statuses(&host::read(USUAL_SIZE, |buffer, limit| unsafe { host::node_to_status_map(buffer, limit) }))
}

pub(crate) fn node_scores() -> Result<Vec<NodeScore>> {
    // SAFETY: the host keeps to the buffer and its limit.
    scores(&host::read(USUAL_SIZE, |buffer, limit| unsafe { host::node_score_list(buffer, limit) }))
}

pub(crate) fn send_scores(scores: &[NodeScore]) {
    let text = object(scores);
    // SAFETY: the host reads that many bytes.
    unsafe { host::result_normalized_score_list(text.as_ptr(), text.len()) };
}

fn statuses(text: &[u8]) -> Result<Vec<(String, Code)>> {
    let mut statuses = Vec::new();
    each_number(text, |name, number| Code::of(number).map(|code| statuses.push((name, code))))?;
    Ok(statuses)
}

pub(crate) fn scores(text: &[u8]) -> Result<Vec<NodeScore>> {
    let mut scores = Vec::new();
    each_number(text, |name, score| {
        scores.push(NodeScore { name, score });
        Some(())
    })?;
    Ok(scores)
}

/// Calls `take` with each member of an object of integers.
fn each_number(text: &[u8], mut take: impl FnMut(String, i64) -> Option<()>) -> Result<()> {
    let mut object = Object::new(text);
    while let Some((name, value)) = object.member().map_err(|_| MALFORMED)? {
        let number = match value {
            Value::Number(digits) => digits.parse().ok(),
            _ => None,
        };
        number.and_then(|number| take(name, number)).ok_or(MALFORMED)?;
    }
    Ok(())
}

pub(crate) fn object(scores: &[NodeScore]) -> String {
    let mut text = String::from("{");
    for each in scores {
        json::key(&each.name, &mut text);
        text.push_str(&each.score.to_string());
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests {
    use super::{object, scores, statuses, NodeScore, MALFORMED};
    use crate::status::Code;

    #[test]
    fn statuses_of_nodes() {
        let text = br#"{"a": 2, "b": 3}"#;
        let expected = vec![("a".into(), Code::Unschedulable), ("b".into(), Code::UnschedulableAndUnresolvable)];
        assert_eq!(statuses(text), Ok(expected));
        for text in ["", "[]", "{\"a\": 7}", "{\"a\": -1}", "{\"a\": \"2\"}", "{\"a\": 2.0}"] {
            assert_eq!(statuses(text.as_bytes()), Err(MALFORMED), "{}", text);
        }
    }

    #[test]
    fn scores_of_nodes_there_and_back() {
        let text = br#"{"a":-3,"node \"b\"":9223372036854775807}"#;
        let expected = [("a", -3), ("node \"b\"", i64::MAX)];
        let read = scores(text);
        assert_eq!(read, Ok(expected.map(|(name, score)| NodeScore { name: name.into(), score }).into()));
        assert_eq!(object(&read.unwrap()).as_bytes(), text);
        assert_eq!(object(&[]), "{}");
    }
}
