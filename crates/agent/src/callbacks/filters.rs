//! The two callbacks that are filters: behind all others they see what is really sent.

use super::{Callbacks, Teller};
use valvehouse_core::filter::Filter;
use valvehouse_core::filter::Verdict::Continue;

/// Behind every other filter.
pub(super) const LAST: f64 = 9999.0;

impl Callbacks {
    /// What an agent's kernel needs for `on_llm_call` and `on_tool_call`. They tell whoever watches the turn
    /// they run in.
    pub fn filters() -> Vec<Filter> {
        let llm_call = Filter::pre_chat("agent_on_llm_call", |ctx| {
            if let Some(teller) = Teller::of(&ctx.turn) {
                teller.llm_call(&ctx);
            }
            Ok(Continue(ctx))
        });
        let tool_call = Filter::pre_invocation("agent_on_tool_call", |ctx| {
            if let Some(teller) = Teller::of(&ctx.turn) {
                teller.tool_call(&ctx);
            }
            Ok(Continue(ctx))
        });
        vec![llm_call.priority(LAST), tool_call.priority(LAST)]
    }
}
