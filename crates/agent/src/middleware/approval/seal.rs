//! The seal of an approved call, checked after all other filters.

use super::asks::Asks;
use sha2::{Digest, Sha256};
use std::sync::{Arc, LazyLock};
use valvehouse_core::fault::{Breakage, Refusal};
use valvehouse_core::filter::{FilterContext, Hook, Run, Verdict};
use valvehouse_core::lanes::Pace;
use valvehouse_core::words::hex;
use valvehouse_json::{Json, Object};

pub(super) const NAME: &str = "human_approval_check";
/// The key under which a ctx carries the seal of the approved call.
const SEAL: &str = "__approved__";

/// Runs after every other filter, right before the tool: the call has to be the one that was approved.
pub(super) struct Binding(Arc<Asks>);

impl Binding {
    pub(super) fn new(asks: Arc<Asks>) -> Self {
        Self(asks)
    }
}

/// Returns the call with its seal.
pub(super) fn sealed(ctx: FilterContext) -> Result<Verdict, Breakage> {
    let seal = seal(&ctx);
    let put = ctx.value.set(SEAL, seal);
    put.map_err(|error| Breakage::new(format!("cannot seal the approved call: {error}")))?;
    Ok(Verdict::Continue(ctx))
}

/// A seal over the tool's name and its arguments, which nobody else can make: its key lasts as long as the process.
fn seal(ctx: &FilterContext) -> String {
    static KEY: LazyLock<uuid::Uuid> = LazyLock::new(uuid::Uuid::new_v4);
    let call = Json::from([("tool", ctx.tool().field("name")), ("args", canonical(&ctx.args()))]);
    hex(&Sha256::digest(format!("{} {call}", *KEY)))
}

/// Returns a copy with sorted keys: their order does not matter.
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

/// Returns a refusal if a filter put something in the place of `ctx.tool`: a person would approve another tool than
/// the one that runs.
pub(super) fn replaced_tool(ctx: &FilterContext) -> Option<Refusal> {
    let tool = ctx.tool();
    (!tool.is_read_only()).then(|| {
        let message =
            "cannot ask a person about this call: a filter replaced `ctx.tool`; change `ctx.args` only";
        Refusal::new(message.to_owned())
    })
}

impl Binding {
    fn has_seal(ctx: &FilterContext) -> bool {
        ctx.value.text(SEAL).is_some_and(|found| *found == *seal(ctx))
    }
}

impl Run for Binding {
    fn run(&self, _: Hook, ctx: FilterContext) -> Result<Verdict, Breakage> {
        // From here on nobody else holds these values.
        let mut ctx = ctx;
        let own = [("tool", ctx.tool()), ("args", ctx.args().copy())].map(|(name, part)| (name.into(), part));
        let seal = ctx.value.get(SEAL).map(|seal| (SEAL.into(), seal));
        ctx.value = Json::Object(own.into_iter().chain(seal).collect::<Object>());
        if let Some(refusal) = replaced_tool(&ctx) {
            return Ok(Verdict::Error(refusal));
        }
        let was_looked_at = ctx.value.get(SEAL).is_some();
        if Self::has_seal(&ctx) || !was_looked_at && !self.0.needs_approval(&ctx.tool(), &ctx.args()) {
            return Ok(Verdict::Continue(ctx));
        }
        let name = ctx.tool().text_or_empty("name");
        Ok(Verdict::Error(Refusal::new(format!(
            "cannot call the tool `{name}`: its arguments were changed after a person approved them"
        ))))
    }

    fn pace(&self, _: Hook, ctx: &FilterContext) -> Option<Pace> {
        let asks_again = matches!(*self.0, Asks::Custom(_)) && ctx.value.get(SEAL).is_none();
        asks_again.then_some(Pace::Waits)
    }
}
