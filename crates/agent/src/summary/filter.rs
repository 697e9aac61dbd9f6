//! The summarization filter, which runs before a model call.

use super::plan::{Look, Plan};
use super::settings::{NAME, Summarization};
use std::sync::Arc;
use valvehouse_core::error::PluginError;
use valvehouse_core::filter::{FilterContext, FilterEntry, Hook, HookRunner, Hooks, Verdict};
use valvehouse_executor::Workload;

/// The priority of the filter: before all filters that process the model's input, and after limits (-3000) and
/// redaction (-2000), which also protect the model that writes summaries.
pub const PRIORITY: f64 = -1000.0;

/// The size of messages in bytes above which their tokens are counted on a separate stack.
const LONG_TO_COUNT: usize = 1 << 18;

impl Summarization {
    /// Creates the filter.
    pub fn filter(self) -> FilterEntry {
        let hooks = Hooks::default().with(Hook::PreChat);
        FilterEntry::new(NAME, hooks, Arc::new(Summarizer(self))).priority(PRIORITY)
    }
}

struct Summarizer(Summarization);

impl HookRunner for Summarizer {
    fn run(&self, _: Hook, ctx: &mut FilterContext) -> Result<Verdict, PluginError> {
        let mut look = Look::at(&self.0, ctx);
        let from = match look.plan() {
            Plan::Leave => None,
            Plan::Show { from } => Some(from),
            Plan::Write { from } => Some(look.write(from, &ctx.turn)),
        };
        let view = from.map(|from| look.view(from));
        look.keep(&ctx.turn, from);
        if let Some(messages) = view {
            ctx.set_messages(messages);
        }
        Ok(Verdict::Continue)
    }

    fn workload(&self, _: Hook, ctx: &FilterContext) -> Option<Workload> {
        if ctx.messages().size_estimate() > LONG_TO_COUNT {
            return Some(Workload::CpuBound);
        }
        self.0.writer()?;
        matches!(Look::at(&self.0, ctx).plan(), Plan::Write { .. }).then_some(Workload::Blocking)
    }
}
