//! The interpretation of a person's answer to an approval request. An unclear answer is a rejection.

use valvehouse_core::limits::clipped;
use valvehouse_core::text::yes_or_no;
use valvehouse_json::Json;

/// A person's decision.
#[derive(Debug, PartialEq)]
pub(super) enum Decision {
    Approved { arguments: Option<Json> },
    Rejected(String),
}

impl Decision {
    /// Interprets an answer. An answer that is not clearly an approval is a rejection.
    pub(super) fn of(answer: &Json) -> Self {
        match answer {
            Json::Bool(true) => Self::Approved { arguments: None },
            Json::Bool(false) => Self::Rejected("the person rejected the call".into()),
            Json::Text(text) => match yes_or_no(text) {
                Some(approved) => Self::of(&Json::Bool(approved)),
                None => Self::Rejected(format!("the person said: {text}")),
            },
            Json::Object(_) => Self::of_map(answer),
            other => Self::Rejected(format!("invalid answer {}: expected yes or no", clipped(other))),
        }
    }

    fn of_map(answer: &Json) -> Self {
        let reason = answer.text("reason").filter(|reason| !reason.trim().is_empty());
        let approved = match answer.get("approved") {
            // Open WebUI sends an error if the person has left.
            _ if answer.get("error").is_some_and(|error| !error.is_null()) => {
                return Self::Rejected(format!("no answer: {}", clipped(&answer.field("error"))));
            }
            Some(Json::Bool(approved)) => approved,
            Some(Json::Text(word)) if yes_or_no(&word).is_some() => yes_or_no(&word) == Some(true),
            _ => return Self::Rejected(format!("the answer {} has no `approved`", clipped(answer))),
        };
        if !approved {
            return Self::Rejected(reason.map_or_else(|| "the person rejected the call".into(), Into::into));
        }
        match answer.get("arguments").filter(|arguments| !arguments.is_null()) {
            None => Self::Approved { arguments: None },
            Some(arguments @ Json::Object(_)) => Self::Approved { arguments: Some(arguments.deep_clone()) },
            Some(other) => {
                Self::Rejected(format!("the approved arguments are {}, not a map", clipped(&other)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(answer: &str) -> Decision {
        Decision::of(&Json::parse(answer.as_bytes()).unwrap())
    }

    #[test]
    fn only_an_explicit_yes_approves() {
        for yes in
            ["true", "\"Yes!\"", "\"ja\"", r#"{"approved":true}"#, r#"{"approved":"yes","reason":"fine"}"#]
        {
            assert_eq!(decided(yes), Decision::Approved { arguments: None }, "{yes}");
        }
        for no in [
            "null",
            "1",
            "[]",
            "[true]",
            "{}",
            "\"perhaps\"",
            "\"\"",
            r#"{"approved":null}"#,
            r#"{"approved":1}"#,
            r#"{"yes":true}"#,
            r#"{"approved":true,"arguments":"all"}"#,
            r#"{"approved":true,"error":"gone"}"#,
            r#"{"approved":"later"}"#,
            "false",
            "\"no\"",
        ] {
            assert!(matches!(decided(no), Decision::Rejected(_)), "{no}");
        }
    }

    #[test]
    fn a_decision_carries_the_reason_or_the_changed_arguments() {
        assert_eq!(
            decided(r#"{"approved":false,"reason":"too dear"}"#),
            Decision::Rejected("too dear".into())
        );
        assert_eq!(decided("\"ask Ann first\""), Decision::Rejected("the person said: ask Ann first".into()));
        let Decision::Approved { arguments: Some(arguments) } =
            decided(r#"{"approved":true,"arguments":{"sum":5}}"#)
        else {
            panic!()
        };
        assert_eq!(arguments.get("sum"), Some(5_i64.into()));
    }
}
