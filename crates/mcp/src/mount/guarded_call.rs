//! A call of a server: what the server sends to the client while the call runs, and the client's answers, pass the guards
//! of the turn, as results and arguments do.

use valvehouse_core::context::Turn;
use valvehouse_core::filter::{Chain, ChainOutcome, FilterEntry, Hook};
use valvehouse_core::kernel::Kernel;
use valvehouse_json::Json;

/// A call of a tool, a prompt or a resource of a server.
pub(super) struct GuardedCall {
    pub(super) turn: Turn,
    /// The description of the tool, and its arguments, for filters.
    pub(super) about: Json,
    pub(super) args: Json,
}

impl GuardedCall {
    /// Returns the kernel of the turn and its guards; `None` without guards.
    fn guards(&self) -> Option<(Kernel, Chain)> {
        let kernel = Kernel::of_turn(&self.turn)?;
        let guards: Vec<FilterEntry> = kernel.chain().guards().cloned().collect();
        (!guards.is_empty()).then(|| (kernel, Chain::new(guards)))
    }

    /// Returns a value of the server as the client may see it.
    ///
    /// # Errors
    /// Returns the reason if a guard refuses or fails, or judges answers by a hook that cannot judge this value.
    pub(super) async fn shown(&self, value: Json) -> Result<Json, String> {
        let Some((kernel, guards)) = self.guards() else { return Ok(value) };
        let judges = [Hook::PostInvocation, Hook::Stream, Hook::StreamEnd];
        let can_judge = |name: &str| judges.iter().any(|hook| guards.at(*hook).any(|own| own.name() == name));
        let of_answers = guards.at(Hook::PostChat).chain(guards.at(Hook::Outlet));
        if let Some(blind) = of_answers.map(FilterEntry::name).find(|name| !can_judge(name)) {
            return Err(format!("the guard `{blind}` cannot judge it; add the hook `post_invocation` to it"));
        }
        let value = self.run(&guards, Hook::PostInvocation, "result", value).await?;
        match guards.has(Hook::Stream) || guards.has(Hook::StreamEnd) {
            true => Ok(kernel.judge_texts(&value, &self.turn).await),
            false => Ok(value),
        }
    }

    /// Returns an answer of the client as the server may see it.
    ///
    /// # Errors
    /// Returns the reason if a guard refuses or fails.
    pub(super) async fn sent(&self, answer: Json) -> Result<Json, String> {
        let Some((_, guards)) = self.guards() else { return Ok(answer) };
        self.run(&guards, Hook::PreInvocation, "args", answer).await
    }

    async fn run(&self, guards: &Chain, hook: Hook, key: &str, value: Json) -> Result<Json, String> {
        let ctx = self.turn.ctx_of([("tool", self.about.clone()), ("args", self.args.deep_clone())]);
        // The object is new, so the write cannot fail.
        ctx.put(key, value);
        match guards.run(hook, ctx, &self.turn).await {
            Ok(ChainOutcome::Done(ctx)) => Ok(ctx.field(key)),
            Ok(ChainOutcome::Skipped(value)) if hook == Hook::PostInvocation => Ok(value),
            Ok(ChainOutcome::Skipped(_)) => Err("a guard has another answer".into()),
            Err(error) => Err(error.to_string()),
        }
    }
}
