//! The seal of an approved call, checked after all other filters, and the selection of calls that need
//! approval.

use crate::middleware::definition::NeedsApproval;
use crate::middleware::options::Options;
use regex::Regex;
use sha2::{Digest, Sha256};
use std::sync::{Arc, LazyLock};
use valvehouse_core::error::{PluginError, Rejection};
use valvehouse_core::filter::{FilterContext, Hook, HookRunner, Verdict};
use valvehouse_core::kernel::CHANGED_BY_PERSON;
use valvehouse_core::limits::clipped;
use valvehouse_core::text::hex;
use valvehouse_executor::Workload;
use valvehouse_json::{Json, Object};

pub(super) const NAME: &str = "human_approval_check";
/// The key of the seal in a hook's value.
const SEAL: &str = "__approved__";

/// A filter that runs after all others, directly before the tool, and checks that the call is the approved one.
pub(super) struct Binding(Arc<Asks>);

impl Binding {
    pub(super) fn new(asks: Arc<Asks>) -> Self {
        Self(asks)
    }
}

/// Returns the call with its seal.
pub(super) fn sealed(ctx: &FilterContext) -> Result<Verdict, PluginError> {
    let seal = seal(ctx);
    let put = ctx.value.set(SEAL, seal);
    put.map_err(|error| PluginError::new(format!("cannot seal the approved call: {error}")))?;
    Ok(Verdict::Continue)
}

/// Returns a seal over the tool's name and arguments. It cannot be forged, because its key exists only in this
/// process.
fn seal(ctx: &FilterContext) -> String {
    static KEY: LazyLock<uuid::Uuid> = LazyLock::new(uuid::Uuid::new_v4);
    let call = Json::from([("tool", ctx.tool().field("name")), ("args", canonical(&ctx.args()))]);
    hex(&Sha256::digest(format!("{} {call}", *KEY)))
}

/// Returns a copy with sorted keys, because their order is irrelevant.
fn canonical(value: &Json) -> Json {
    match value {
        Json::Object(object) => {
            let mut entries = object.entries();
            entries.sort_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
            let entries = entries.into_iter().map(|(key, value)| (key, canonical(&value)));
            Json::Object(entries.collect::<Object>())
        }
        Json::Array(array) => array.items().iter().map(canonical).collect::<Vec<_>>().into(),
        other => other.clone(),
    }
}

/// Returns a refusal if a filter replaced `ctx.tool`, because a person would then approve a different tool.
pub(super) fn replaced_tool(ctx: &FilterContext) -> Option<Rejection> {
    let tool = ctx.tool();
    (!tool.is_read_only()).then(|| {
        let message =
            "cannot ask a person about this call: a filter replaced `ctx.tool`; change `ctx.args` only";
        Rejection::new(message.to_owned())
    })
}

impl Binding {
    fn has_seal(ctx: &FilterContext) -> bool {
        ctx.value.text(SEAL).is_some_and(|found| *found == *seal(ctx))
    }
}

impl HookRunner for Binding {
    fn run(&self, _: Hook, ctx: &mut FilterContext) -> Result<Verdict, PluginError> {
        // From here on, no other code holds these values.
        let own =
            [("tool", ctx.tool()), ("args", ctx.args().deep_clone())].map(|(name, part)| (name.into(), part));
        let marks = [SEAL, CHANGED_BY_PERSON];
        let marks = marks.iter().filter_map(|key| Some(((*key).into(), ctx.value.get(key)?)));
        let marks: Vec<_> = marks.collect();
        ctx.value = Json::Object(own.into_iter().chain(marks).collect::<Object>());
        if let Some(rejection) = replaced_tool(ctx) {
            return Ok(Verdict::Reject(rejection));
        }
        let was_looked_at = ctx.value.get(SEAL).is_some();
        if Self::has_seal(ctx) || !was_looked_at && !self.0.needs_approval(&ctx.tool(), &ctx.args()) {
            return Ok(Verdict::Continue);
        }
        let name = ctx.tool().text_or_empty("name");
        Ok(Verdict::Reject(Rejection::new(format!(
            "cannot call the tool `{name}`: its arguments were changed after a person approved them"
        ))))
    }

    fn workload(&self, _: Hook, ctx: &FilterContext) -> Option<Workload> {
        let asks_again = matches!(*self.0, Asks::Custom(_)) && ctx.value.get(SEAL).is_none();
        asks_again.then_some(Workload::Blocking)
    }
}

/// The calls that need approval.
pub(super) enum Asks {
    All,
    /// The calls of these tools or, if there are conditions for a tool, those that satisfy one of them.
    Selected {
        tools: Vec<ToolPattern>,
        conditions: Vec<Condition>,
    },
    Custom(NeedsApproval),
}

/// A condition under which the arguments of a tool need approval.
pub(super) struct Condition {
    tool: ToolPattern,
    path: String,
    matches: Regex,
}

/// An entry of a list of tools: a name with `*` as a wildcard, or `tag:x`.
pub(super) enum ToolPattern {
    Tag(String),
    Name(Regex),
}

/// Reads the option `arguments`: `{tool: {path: pattern}}`.
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
                    conditions.push(Condition { tool: ToolPattern::by(&tool), path: path.into(), matches });
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

impl ToolPattern {
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
