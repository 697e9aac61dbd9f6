//! The calls that a person is asked about.

use crate::middleware::definition::NeedsApproval;
use crate::middleware::options::Options;
use regex::Regex;
use valvehouse_core::limits::clipped;
use valvehouse_json::Json;

/// The calls that a person is asked about.
pub(super) enum Asks {
    All,
    /// Of these tools; and of those only, where conditions are named, when one of them holds.
    Selected {
        tools: Vec<Meant>,
        conditions: Vec<Condition>,
    },
    Custom(NeedsApproval),
}

/// The condition under which the arguments of a tool need approval.
pub(super) struct Condition {
    tool: Meant,
    path: String,
    matches: Regex,
}

/// A word of a list of tools: a name in which `*` stands for anything, or `tag:x`.
pub(super) enum Meant {
    Tag(String),
    Name(Regex),
}

/// `arguments: {tool: {path: pattern}}`
pub(super) fn conditions(options: &mut Options<'_>) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for (tool, paths) in options.map("arguments") {
        let Json::Object(paths) = &paths else {
            options.problem(format!(
                "has {} for {tool} in `arguments`: give a map of patterns",
                clipped(&paths)
            ));
            continue;
        };
        for (path, pattern) in paths.entries() {
            match pattern.as_str().map(Regex::new) {
                Some(Ok(matches)) => {
                    conditions.push(Condition { tool: Meant::by(&tool), path: path.into(), matches });
                }
                _ => options.problem(format!(
                    "has {} for {tool}.{path} in `arguments`: give a regular expression as text",
                    clipped(&pattern)
                )),
            }
        }
    }
    conditions
}

impl Condition {
    fn holds(&self, args: &Json) -> bool {
        match args.at_path(&self.path) {
            Json::Null => false,
            Json::Text(text) => self.matches.is_match(&text),
            value => self.matches.is_match(&value.to_string()),
        }
    }
}

impl Meant {
    pub(super) fn by(word: &str) -> Self {
        if let Some(tag) = word.strip_prefix("tag:") {
            return Self::Tag(tag.to_owned());
        }
        let pattern = format!("^{}$", regex::escape(word).replace("\\*", ".*"));
        Self::Name(Regex::new(&pattern).expect("an escaped word with `.*` in it is a pattern"))
    }

    fn is(&self, tool: &Json) -> bool {
        match self {
            Self::Tag(tag) => {
                let tags = tool.list("tags");
                tags.iter().any(|own| own.as_str() == Some(tag))
            }
            Self::Name(name) => tool.text("name").is_some_and(|own| name.is_match(&own)),
        }
    }
}

impl Asks {
    pub(super) fn needs_approval(&self, tool: &Json, args: &Json) -> bool {
        match self {
            Self::All => true,
            Self::Custom(needs_approval) => needs_approval(tool, args),
            Self::Selected { tools, conditions } => {
                let mut own = conditions.iter().filter(|condition| condition.tool.is(tool)).peekable();
                match own.peek() {
                    Some(_) => own.any(|condition| condition.holds(args)),
                    None => tools.iter().any(|meant| meant.is(tool)),
                }
            }
        }
    }
}
