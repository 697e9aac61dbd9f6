//! Random filters of a small grammar. All of them have the same effect on a streamed and on a whole response:
//! code that reads single events works on each letter or on every event, because services split texts
//! anywhere; and text that has been sent is only extended, unless the response is held.

use fastrand::Rng;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use valvehouse::breaker::BreakerSettings;
use valvehouse::chat::event;
use valvehouse::error::PluginError;
use valvehouse::filter::{FilterContext, FilterEntry, Hook, HookRunner, Hooks, Verdict};
use valvehouse::json::Json;
use valvehouse::script::{Kind, Script, Settings, SourceFile};

/// The permitted effects of a set of filters.
#[derive(Clone, Copy)]
pub(super) struct May {
    /// They may rewrite the text, which only a held response can show.
    pub(super) rewrite: bool,
    /// They may use a second choice.
    pub(super) second_choice: bool,
}

const STREAM: &[&str] = &[
    "event.text = event.text.to_upper();",
    "event.text = text::replace(event.text, \"o\", \"<0>\");",
    "event.text = text::replace(event.text, \" \", \"\");",
    "event.reasoning = event.reasoning.to_upper();",
    "event.reasoning = \"\";",
    "for place in event.texts { place.text = text::replace(place.text, \"e\", \"3\"); }",
    "if !empty(event.finish_reason) { event.finish_reason = \"content_filter\"; }",
    "if event.index == 1 { return []; }",
    "if event.index == 0 { return []; }",
    "return [];",
    "return skip(event);",
    "return [#{ text: event.text, index: event.index }, #{ text: \"\", index: event.index }];",
    "state.count = (state.count ?? 0) + event.text.len();",
    "__metadata__.count = (__metadata__.count ?? 0) + event.text.len();",
    // A window as large as the response: the text is whole again.
    "let kept = state.ensure(\"kept\", [\"\", \"\"]); kept[event.index] += event.text; event.text = \"\";",
];

const STREAM_END: &[&str] = &[
    "out.push(#{ text: \" the end\" });",
    "out.push(#{ text: `[${state.count ?? 0}]` });",
    "__metadata__.ended = (__metadata__.ended ?? 0) + 1;",
    "return skip(out + [#{ text: \" last\" }]);",
];

const STREAM_END_OF_TWO: &[&str] = &["out.push(#{ text: \" THE END\", index: 1 });"];

const INLET: &[&str] = &[
    "body.messages.push(#{ role: \"user\", content: \"and more\" });",
    "body.messages[-1].text += \"!\";",
    "__metadata__.began = body.messages.len();",
    "state.count = 100;",
];

const PRE_CHAT: &[&str] = &[
    "ctx.messages.append_system(\"Be kind.\");",
    "ctx.context.set(\"calls\", ctx.context.get(\"calls\", 0) + 1);",
    "ctx.metadata.seen = ctx.messages.len();",
    "if ctx.context.get(\"calls\", 0) == 2 { return skip(\"from the cache\"); }",
];

const POST_CHAT: &[&str] = &[
    "ctx.result.text += \" (read)\";",
    "ctx.context.set(\"result\", ctx.result.text);",
    "ctx.metadata.answers = (ctx.metadata.answers ?? 0) + 1;",
    "state.count = (state.count ?? 0) + ctx.result.text.len();",
];

const POST_CHAT_REWRITES: &[&str] = &[
    "ctx.result.text = `<${ctx.result.text}>`;",
    "if ctx.result.text.len() > 9 { return skip(\"too long\"); }",
];

const PRE_INVOCATION: &[&str] = &[
    "ctx.args.n = 7;",
    "ctx.context.set(\"called\", ctx.tool.name);",
    "return skip(\"not needed\");",
    "return error(\"not now\");",
];

const POST_INVOCATION: &[&str] = &[
    "ctx.context.set(\"results\", ctx.context.get(\"results\", []) + [`${ctx.result}`]);",
    "ctx.result = `<${ctx.result}>`;",
];

const OUTLET: &[&str] = &[
    "body.messages[-1].text += \" -- signed\";",
    "body.messages[-1].text += ` (${__metadata__.count ?? 0})`;",
    "__metadata__.whole = body.messages.len();",
];

const OUTLET_REWRITES: &[&str] = &[
    "body.messages[-1].text = text::replace(body.messages[-1].text, \"one\", \"1\");",
    "body.messages[-1].text = `[${body.messages[-1].text}]`;",
    "return skip(\"something else\");",
];

/// Scripts that fail after half of their changes.
const BREAKS: &[&str] = &["event.text = \"spoilt\"; throw \"no\";", "event.text = \"spoilt\"; return 42;"];

/// Runs only on events with this letter in a text.
const MATCHES: &str =
    "/*\nmatch: o\n*/\nfn stream(event) { event.text = text::replace(event.text, \"o\", \"0\"); }";

/// Returns one to four filters.
pub(super) fn draw(rng: &mut Rng, may: May) -> Vec<(FilterEntry, String)> {
    (0..rng.usize(1..=4))
        .map(|place| {
            let name = format!("f{place}");
            let (filter, text) = match rng.u8(0..12) {
                0..3 => native(rng, &name),
                3 => (compiled(&name, MATCHES), MATCHES.to_owned()),
                _ => scripted(rng, &name, may),
            };
            (filter.priority(f64::from(rng.u8(0..3))), text)
        })
        .collect()
}

fn scripted(rng: &mut Rng, name: &str, may: May) -> (FilterEntry, String) {
    let ignored = rng.u8(0..4) == 0;
    let mut text = String::from(if ignored { "/*\non_error: continue\n*/\n" } else { "" });
    let mut hook = |head: &str, before: &str, own: &[&[&str]], after: &str| {
        let all: Vec<&str> = own.iter().flat_map(|some| some.iter().copied()).collect();
        if rng.u8(0..10) < 4 {
            let first = all[rng.usize(..all.len())];
            let second = if rng.bool() { all[rng.usize(..all.len())] } else { "" };
            // The code that returns comes last.
            let (first, second) = if first.contains("return") && !first.starts_with("if") {
                ("", first)
            } else {
                (first, second)
            };
            text += &format!("fn {head} {{ {before} {first} {second} {after} }}\n");
        }
    };
    let only = |wanted: bool, more: &'static [&'static str]| if wanted { more } else { &[] };
    hook("inlet(body, state, __metadata__)", "", &[INLET], "");
    hook("pre_chat(ctx)", "", &[PRE_CHAT], "");
    hook("stream(event, state, __metadata__)", "", &[STREAM, only(ignored, BREAKS)], "");
    hook("post_chat(ctx, state)", "", &[POST_CHAT, only(may.rewrite, POST_CHAT_REWRITES)], "");
    hook("pre_invocation(ctx)", "", &[PRE_INVOCATION], "");
    hook("post_invocation(ctx)", "", &[POST_INVOCATION], "");
    hook("outlet(body, __metadata__)", "", &[OUTLET, only(may.rewrite, OUTLET_REWRITES)], "");
    let ends = [STREAM_END, only(may.second_choice, STREAM_END_OF_TWO)];
    hook("stream_end(state, __metadata__)", "let out = kept(state);", &ends, "out");
    if !text.contains("stream_end") {
        text += "fn stream_end(state) { kept(state) }\n";
    }
    text += KEPT;
    (compiled(name, &text), text)
}

/// The code for held-back text: it comes at the end, with replacements across former cuts.
const KEPT: &str = r#"fn kept(state) {
    let out = [];
    let kept = state.ensure("kept", ["", ""]);
    for index in 0..2 {
        if kept[index] != "" { out.push(#{ text: text::replace(kept[index], "one", "1"), index: index }); }
        kept[index] = "";
    }
    out
}
"#;

/// Compiles a script, or returns the cached filter of the same text.
fn compiled(name: &str, text: &str) -> FilterEntry {
    thread_local! {
        static KNOWN: RefCell<HashMap<(String, String), FilterEntry>> = RefCell::default();
    }
    let known = KNOWN.with_borrow(|known| known.get(&(name.to_owned(), text.to_owned())).cloned());
    known.unwrap_or_else(|| {
        let file = SourceFile::new(Kind::Filter, name, format!("filters/{name}.rhai"), text);
        // Other tests cover budgets and breakers, which depend on time.
        let breaker = BreakerSettings { failure_threshold: 0, ..BreakerSettings::default() };
        let settings = Settings { guarded: false, breaker, ..Settings::default() };
        let script = Script::compile(&file, &settings).unwrap_or_else(|problems| {
            panic!("{text}\n{}", problems.iter().map(ToString::to_string).collect::<String>())
        });
        let filter = Arc::new(script).into_filter(Arc::default());
        KNOWN.with_borrow_mut(|known| known.insert((name.to_owned(), text.to_owned()), filter.clone()));
        filter
    })
}

/// Filters in Rust.
#[derive(Clone, Copy, Debug)]
enum Native {
    Shouts,
    Counts,
    Signs,
    Drops,
}

fn native(rng: &mut Rng, name: &str) -> (FilterEntry, String) {
    let all = [Native::Shouts, Native::Counts, Native::Signs, Native::Drops];
    let native = all[rng.usize(..all.len())];
    let hooks: Hooks = match native {
        Native::Shouts | Native::Drops => [Hook::Stream].into_iter().collect(),
        Native::Counts => [Hook::Stream, Hook::StreamEnd].into_iter().collect(),
        Native::Signs => [Hook::Outlet].into_iter().collect(),
    };
    let run = NamedNative { name: name.to_owned(), native };
    (FilterEntry::new(name, hooks, Arc::new(run)), format!("{native:?}"))
}

struct NamedNative {
    name: String,
    native: Native,
}

impl HookRunner for NamedNative {
    fn run(&self, hook: Hook, ctx: &mut FilterContext) -> Result<Verdict, PluginError> {
        let text = event::text(&ctx.value);
        let state = ctx.turn.state(&self.name);
        let count = state.get("count").and_then(|count| count.as_i64()).unwrap_or(0);
        match (self.native, hook) {
            (Native::Shouts, _) => event::set_text(&ctx.value, &text.to_uppercase()),
            (Native::Drops, _) => ctx.value = Json::array(),
            (Native::Counts, Hook::Stream) => {
                state.set("count", count + text.chars().count() as i64).unwrap();
            }
            (Native::Counts, _) => ctx.value = Json::from([("text", format!("({count})").into())]),
            (Native::Signs, _) => {
                let last = ctx.messages().at(-1).unwrap_or_default();
                let message_text = valvehouse::chat::message::text_of(&last);
                last.set("content", format!("{message_text} -- Rust")).unwrap();
            }
        }
        Ok(Verdict::Continue)
    }
}
