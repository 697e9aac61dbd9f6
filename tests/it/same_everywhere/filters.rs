//! Random filters of a small grammar; each action is written in Rhai and in Rust. Code that reads single
//! events works on each letter, and text that has been sent is only extended, so all filters have the same
//! effect on streamed and whole responses.

use fastrand::Rng;
use std::sync::Arc;
use valvehouse::chat::{event, message};
use valvehouse::context::Turn;
use valvehouse::error::{PluginError, Rejection};
use valvehouse::filter::{FilterContext, FilterEntry, Hook, HookRunner, Hooks, Verdict};
use valvehouse::json::Json;

/// One action of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    AsksMore,
    Stresses,
    RemembersLength,
    AnswersItself,
    Emits,
    Counts,
    AnswersTheSecondCall,
    Refuses,
    RefusesForNow,
    RefusesDrei,
    Breaks,
    Shouts,
    DropsSpaces,
    DropsThoughts,
    CountsLetters,
    StopsAtJapanese,
    Ends,
    EndsWithCount,
    Reads,
    SetsSeven,
    NeedsNoTool,
    ForbidsTheTool,
    Frames,
    Signs,
    SignsWithLength,
}

/// Returns the actions of a hook: the usual ones, and those that end the turn.
fn acts(hook: Hook) -> (&'static [Act], &'static [Act]) {
    use Act::*;
    match hook {
        Hook::Inlet => (
            &[AsksMore, Stresses, RemembersLength, Emits],
            &[AnswersItself, Refuses, RefusesForNow, RefusesDrei, Breaks],
        ),
        Hook::PreChat => {
            (&[AsksMore, Counts, Emits], &[AnswersItself, AnswersTheSecondCall, Refuses, Breaks])
        }
        Hook::Stream => (&[Shouts, DropsSpaces, DropsThoughts, CountsLetters], &[StopsAtJapanese, Breaks]),
        Hook::StreamEnd => (&[Ends, EndsWithCount], &[]),
        Hook::PostChat => (&[Reads, Emits], &[Refuses, RefusesForNow, Breaks]),
        Hook::PreInvocation => (&[SetsSeven, Emits], &[NeedsNoTool, ForbidsTheTool]),
        Hook::PostInvocation => (&[Frames], &[]),
        Hook::Outlet => (&[Signs, SignsWithLength, Emits], &[Refuses, Breaks]),
    }
}

const HOOKS: [Hook; 8] = [
    Hook::Inlet,
    Hook::PreChat,
    Hook::Stream,
    Hook::StreamEnd,
    Hook::PostChat,
    Hook::PreInvocation,
    Hook::PostInvocation,
    Hook::Outlet,
];

/// A random filter.
#[derive(Clone, Debug)]
pub(super) struct RandomFilter {
    pub(super) id: String,
    pub(super) priority: usize,
    hooks: Vec<(Hook, Vec<Act>)>,
}

/// Returns up to three filters in running order. A third of the cases may end the turn early.
pub(super) fn draw(rng: &mut Rng, case: &str) -> Vec<RandomFilter> {
    let may_end = rng.u8(0..3) == 0;
    // At most one filter ends the turn at an event. With two, the first to do so would depend on whether the
    // response is streamed, because they may react to different events.
    let mut ends_at_event = false;
    let mut filter = |rng: &mut Rng, place: usize| {
        let mut hooks = Vec::new();
        for hook in HOOKS {
            if rng.u8(0..10) >= 3 {
                continue;
            }
            let (usual, ending) = acts(hook);
            let mut own = vec![usual[rng.usize(..usual.len())]];
            if rng.bool() {
                own.push(usual[rng.usize(..usual.len())]);
            }
            if may_end && !ending.is_empty() && rng.bool() {
                let act = ending[rng.usize(..ending.len())];
                if hook != Hook::Stream || !std::mem::replace(&mut ends_at_event, true) {
                    own.push(act);
                }
            }
            own.dedup();
            hooks.push((hook, own));
        }
        if hooks.is_empty() {
            hooks.push((Hook::Outlet, vec![Act::Signs]));
        }
        RandomFilter { id: format!("{case}_f{place}"), priority: 10 * (place + 1), hooks }
    };
    (0..rng.usize(0..=3)).map(|place| filter(rng, place)).collect()
}

impl RandomFilter {
    pub(super) fn has(&self, hook: Hook) -> bool {
        self.hooks.iter().any(|(own, _)| *own == hook)
    }

    /// Returns `true` if the filter may end the turn at an event of a response.
    pub(super) fn ends_at_an_event(&self) -> bool {
        let ends = |act: &Act| matches!(act, Act::StopsAtJapanese | Act::Breaks);
        self.acts_at(Hook::Stream).iter().any(ends)
    }

    /// Returns `true` if the filter changes texts of the model other than by appending to them.
    pub(super) fn changes_texts(&self) -> bool {
        let changes = |act: &Act| matches!(act, Act::Shouts | Act::DropsSpaces);
        self.acts_at(Hook::Stream).iter().any(changes)
    }

    fn acts_at(&self, hook: Hook) -> &[Act] {
        let own = self.hooks.iter().find(|(own, _)| *own == hook);
        own.map(|(_, acts)| acts.as_slice()).unwrap_or_default()
    }

    /// Returns the filter as a script that runs only for the models that list it.
    pub(super) fn script(&self) -> String {
        let mut text = format!("/*\nglobal: false\n*/\nconst Valves = #{{ priority: {} }};\n", self.priority);
        for (hook, acts) in &self.hooks {
            let head = match hook {
                Hook::Inlet => "inlet(body, state, __metadata__)",
                Hook::PreChat => "pre_chat(ctx)",
                Hook::Stream => "stream(event, state)",
                Hook::StreamEnd => "stream_end(state)",
                Hook::PostChat => "post_chat(ctx)",
                Hook::PreInvocation => "pre_invocation(ctx)",
                Hook::PostInvocation => "post_invocation(ctx)",
                _ => "outlet(body, __metadata__)",
            };
            let (before, after) = if *hook == Hook::StreamEnd { ("let out = [];", "out") } else { ("", "") };
            let acts: Vec<&str> = acts.iter().map(|act| act.in_rhai(*hook)).collect();
            text += &format!("fn {head} {{ {before} {} {after} }}\n", acts.join(" "));
        }
        text
    }

    /// Returns the same filter in Rust.
    pub(super) fn native(&self) -> FilterEntry {
        let hooks: Hooks = self.hooks.iter().map(|(hook, _)| *hook).collect();
        FilterEntry::new(self.id.as_str(), hooks, Arc::new(self.clone())).priority(self.priority as f64)
    }
}

impl Act {
    fn in_rhai(self, hook: Hook) -> &'static str {
        match (self, hook) {
            (Self::AsksMore, Hook::Inlet) => {
                "body.messages.push(#{ role: \"user\", content: \"and more\" });"
            }
            (Self::AsksMore, _) => "ctx.messages.push(#{ role: \"user\", content: \"kindly\" });",
            (Self::Stresses, _) => "body.messages[-1].text += \"!\";",
            (Self::RemembersLength, _) => "__metadata__.length = body.messages[-1].text.len();",
            (Self::AnswersItself, _) => "return skip(\"out of the cache\");",
            (Self::Emits, _) => "emit(#{ type: \"status\", data: #{ description: \"at it\" } });",
            (Self::Counts, _) => "ctx.context.set(\"calls\", ctx.context.get(\"calls\", 0) + 1);",
            (Self::AnswersTheSecondCall, _) => {
                "if ctx.context.get(\"calls\", 0) == 2 { return skip(\"enough\"); }"
            }
            (Self::Refuses, _) => "throw \"not this\";",
            (Self::RefusesForNow, _) => "throw #{ status: 429, message: \"not now\", retry_after: 3 };",
            (Self::RefusesDrei, _) => {
                "if body.messages[-1].text.contains(\"drei\") { throw #{ status: 403, message: \"no drei\" }; }"
            }
            (Self::Breaks, _) => "let broken = [1][9];",
            (Self::Shouts, _) => "event.text = event.text.to_upper();",
            (Self::DropsSpaces, _) => "event.text = text::replace(event.text, \" \", \"\");",
            (Self::DropsThoughts, _) => "event.reasoning = \"\";",
            (Self::CountsLetters, _) => "state.count = (state.count ?? 0) + event.text.len();",
            (Self::StopsAtJapanese, _) => "if event.text.contains(\"日\") { throw \"no Japanese\"; }",
            (Self::Ends, _) => "out.push(#{ text: \" the end\" });",
            (Self::EndsWithCount, _) => "out.push(#{ text: `[${state.count ?? 0}]` });",
            (Self::Reads, _) => "ctx.result.text += \" (read)\";",
            (Self::SetsSeven, _) => "ctx.args.n = 7;",
            (Self::NeedsNoTool, _) => "return skip(\"not needed\");",
            (Self::ForbidsTheTool, _) => "return error(\"forbidden\");",
            (Self::Frames, _) => "ctx.result = `<${ctx.result}>`;",
            (Self::Signs, _) => "body.messages[-1].text += \" -- signed\";",
            (Self::SignsWithLength, _) => "body.messages[-1].text += ` (${__metadata__.length ?? 0})`;",
        }
    }
}

impl HookRunner for RandomFilter {
    fn run(&self, hook: Hook, ctx: &mut FilterContext) -> Result<Verdict, PluginError> {
        let mut out = Vec::new();
        let turn = ctx.turn.clone();
        let state = turn.state(&self.id);
        let count = || state.get("count").and_then(|count| count.as_i64()).unwrap_or(0);
        for act in self.acts_at(hook) {
            let last = || ctx.messages().at(-1).unwrap();
            let add =
                |more: &str| message::set_text(&last(), &format!("{}{more}", message::text_of(&last())));
            match act {
                Act::AsksMore => {
                    let text = if hook == Hook::Inlet { "and more" } else { "kindly" };
                    ctx.messages().as_array().unwrap().push(message::user(text)).unwrap();
                }
                Act::Stresses => add("!"),
                Act::RemembersLength => {
                    let length = message::text_of(&last()).chars().count();
                    turn.metadata().set("length", i64::try_from(length).unwrap()).unwrap();
                }
                Act::AnswersItself => return Ok(Verdict::Respond("out of the cache".into())),
                Act::Emits => emit(&turn, &self.id),
                Act::Counts => drop(turn.context().set("calls", call_count(&turn) + 1)),
                Act::AnswersTheSecondCall if call_count(&turn) == 2 => {
                    return Ok(Verdict::Respond("enough".into()));
                }
                Act::Refuses => return refuse(Rejection::new("not this")),
                Act::RefusesForNow => {
                    let refusal = Rejection { retry_after: Some(3.0), ..Rejection::new("not now") };
                    return refuse(refusal.with_status(429));
                }
                Act::RefusesDrei if message::text_of(&last()).contains("drei") => {
                    return refuse(Rejection::new("no drei").with_status(403));
                }
                Act::Breaks => return Err(PluginError::new("broken on purpose")),
                Act::Shouts => event::set_text(&ctx.value, &event::text(&ctx.value).to_uppercase()),
                Act::DropsSpaces => {
                    event::set_text(&ctx.value, &event::text(&ctx.value).replace(' ', ""));
                }
                Act::DropsThoughts => event::set_reasoning(&ctx.value, ""),
                Act::CountsLetters => {
                    let letters = event::text(&ctx.value).chars().count();
                    state.set("count", count() + i64::try_from(letters).unwrap()).unwrap();
                }
                Act::StopsAtJapanese if event::text(&ctx.value).contains('日') => {
                    return refuse(Rejection::new("no Japanese"));
                }
                Act::Ends => out.push(Json::from([("text", " the end".into())])),
                Act::EndsWithCount => out.push(Json::from([("text", format!("[{}]", count()).into())])),
                Act::Reads => {
                    let result = ctx.result();
                    message::set_text(&result, &format!("{} (read)", message::text_of(&result)));
                }
                Act::SetsSeven => ctx.args().set("n", 7_i64).unwrap(),
                Act::NeedsNoTool => return Ok(Verdict::Respond("not needed".into())),
                Act::ForbidsTheTool => return refuse(Rejection::new("forbidden")),
                Act::Frames => {
                    let framed = format!("<{}>", ctx.result().as_str().unwrap_or_default());
                    ctx.set_result(framed);
                }
                Act::Signs => add(" -- signed"),
                Act::SignsWithLength => {
                    let length = turn.metadata().get("length").and_then(|length| length.as_i64());
                    add(&format!(" ({})", length.unwrap_or(0)));
                }
                Act::AnswersTheSecondCall | Act::RefusesDrei | Act::StopsAtJapanese => {}
            }
        }
        if hook == Hook::StreamEnd {
            ctx.value = out.into();
        }
        Ok(Verdict::Continue)
    }
}

fn refuse(refusal: Rejection) -> Result<Verdict, PluginError> {
    Ok(Verdict::Reject(refusal))
}

fn call_count(turn: &Turn) -> i64 {
    turn.context().get_or("calls", 0_i64).as_i64().unwrap()
}

fn emit(turn: &Turn, by: &str) {
    let data = Json::from([("description", "at it".into())]);
    turn.emit(by, Json::from([("type", "status".into()), ("data", data)])).unwrap();
}
