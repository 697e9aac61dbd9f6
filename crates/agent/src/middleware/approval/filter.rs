//! The filter that requests approval, and its options.

use super::decision::Decision;
use super::seal::{self, Asks, Binding, ToolPattern, conditions, sealed};
use crate::middleware::definition::{Middleware, Parts};
use crate::middleware::options::Options;
use crate::middleware::typed::HumanApproval;
use crate::middleware::wait::wait;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::context::NobodyAnswers;
use valvehouse_core::error::{PluginError, Rejection};
use valvehouse_core::filter::{FilterContext, FilterEntry, Hook, HookRunner, Hooks, Verdict};
use valvehouse_core::kernel::CHANGED_BY_PERSON;
use valvehouse_executor::Workload;
use valvehouse_json::Json;

pub(in crate::middleware) const NAME: &str = HumanApproval::NAME;
const PRIORITY: f64 = 9998.0;

struct Approval {
    asks: Arc<Asks>,
    timeout: Duration,
    on_timeout: OnTimeout,
}

#[derive(Clone, Copy)]
enum OnTimeout {
    Reject,
    Halt,
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    All,
    Selective,
    Custom,
}

pub(in crate::middleware) fn middleware(options: &Json, parts: &Parts) -> Result<Middleware, String> {
    let mut options = Options::of(NAME, options);
    let modes = [("all", Mode::All), ("selective", Mode::Selective), ("custom", Mode::Custom)];
    let mode = options.word("mode", &modes, Mode::All);
    let listed = options.texts("tools");
    let tools = listed.iter().flatten().map(|word| ToolPattern::by(word)).collect();
    let conditions = conditions(&mut options);
    if mode != Mode::Selective && (listed.is_some() || !conditions.is_empty()) {
        options.problem(
            "has `tools` or `arguments`, which take effect only in mode \"selective\": set that mode",
        );
    }
    let asks = match (mode, &parts.needs_approval) {
        (Mode::All, _) => Asks::All,
        (Mode::Selective, _) => Asks::Selected { tools, conditions },
        (Mode::Custom, Some(needs_approval)) => Asks::Custom(needs_approval.clone()),
        (Mode::Custom, None) => {
            options.problem(
                "has mode \"custom\", for which the library takes a closure; here write a filter script with \
                 `fn pre_invocation(ctx, __event_call__)` that asks, and leave this middleware out",
            );
            Asks::All
        }
    };
    if let Asks::Selected { tools, conditions } = &asks
        && tools.is_empty()
        && conditions.is_empty()
    {
        options.problem("has mode \"selective\" but selects nothing: list `tools`, or `arguments` by tool");
    }
    let timeout = Duration::from_millis(options.number("timeout_ms", 60_000, 1..=86_400_000));
    // There is no "approve" action, because a guard must not approve by itself.
    let actions = [("reject", OnTimeout::Reject), ("halt", OnTimeout::Halt)];
    let on_timeout = options.word("timeout_action", &actions, OnTimeout::Reject);
    options.done()?;
    let hooks = Hooks::default().with(Hook::PreInvocation);
    let asks = Arc::new(asks);
    let approval = Arc::new(Approval { asks: asks.clone(), timeout, on_timeout });
    let asking = FilterEntry::new(NAME, hooks, approval).priority(PRIORITY);
    // The separate name identifies the filter of the question, for a run that resumes after the pause.
    let binding = FilterEntry::new(seal::NAME, hooks, Arc::new(Binding::new(asks))).last();
    Ok(Middleware::of_filters(NAME, [asking, binding]))
}

impl Approval {
    fn decide(&self, ctx: &FilterContext) -> Result<Decision, Rejection> {
        let tool = ctx.tool();
        let data = Json::from([
            ("tool", tool.field("name")),
            ("arguments", ctx.args()),
            ("description", tool.field("description")),
        ]);
        let question = Json::from([("type", "approval".into()), ("data", data)]);
        let answer = wait(ctx.turn.ask_or_hold(NAME, question, self.timeout), &ctx.turn);
        Ok(match answer {
            Ok(Ok(answer)) => Decision::of(&answer),
            Ok(Err(NobodyAnswers::Timeout(after))) => match self.on_timeout {
                OnTimeout::Reject => Decision::Rejected(format!("no answer within {after} ms")),
                OnTimeout::Halt => {
                    let reason = format!("nobody approved the tool call within {after} ms");
                    return Err(Rejection { fatal: true, ..Rejection::new(reason).with_status(403) });
                }
            },
            Ok(Err(NobodyAnswers::NoListener)) => Decision::Rejected(
                "cannot request approval: the client does not accept questions, the \
                 turn cannot pause, and no host can hold the question"
                    .into(),
            ),
            Ok(Err(nobody)) => Decision::Rejected(nobody.to_string()),
            Err(why) => Decision::Rejected(why.to_owned()),
        })
    }
}

impl HookRunner for Approval {
    fn run(&self, _: Hook, ctx: &mut FilterContext) -> Result<Verdict, PluginError> {
        if let Some(rejection) = seal::replaced_tool(ctx) {
            return Ok(Verdict::Reject(rejection));
        }
        if !self.asks.needs_approval(&ctx.tool(), &ctx.args()) {
            return match *self.asks {
                // A closure decides once per call, so the call is sealed.
                Asks::Custom(_) => sealed(ctx),
                _ => Ok(Verdict::Continue),
            };
        }
        Ok(match self.decide(ctx) {
            Err(rejection) => Verdict::Reject(rejection),
            Ok(Decision::Approved { arguments: None }) => sealed(ctx)?,
            Ok(Decision::Approved { arguments: Some(arguments) }) => {
                ctx.value.edit(CHANGED_BY_PERSON, true);
                let put = ctx.value.set("args", arguments);
                put.map_err(|error| PluginError::new(format!("cannot use the approved arguments: {error}")))?;
                sealed(ctx)?
            }
            Ok(Decision::Rejected(reason)) => {
                Verdict::Respond(Json::from([("error", "rejected".into()), ("reason", reason.into())]))
            }
        })
    }

    fn workload(&self, _: Hook, ctx: &FilterContext) -> Option<Workload> {
        // A closure is called once, when the hook runs.
        let may_wait = match &*self.asks {
            Asks::Custom(_) => true,
            asks => asks.needs_approval(&ctx.tool(), &ctx.args()),
        };
        may_wait.then_some(Workload::Blocking)
    }
}
