//! Helpers for the tests of the kernel: scripts as filters, models that call tools, turns with a streaming
//! client.

use std::sync::Arc;
use valvehouse::chat::{ChatRequest, ModelCall, message};
use valvehouse::context::{Context, Turn};
use valvehouse::error::Error;
use valvehouse::filter::{FilterContext, FilterEntry, Hook, HookRunner, Verdict};
use valvehouse::json::Json;
use valvehouse::kernel::{ChatOptions, Kernel, KernelBuilder, RunOptions, TurnAnswer, TurnEvent};
use valvehouse::provider::{CannedProvider, Reply, StreamChunk};
use valvehouse::script::{Kind, Script, Settings, SourceFile};
use valvehouse::tool::Tool;

pub fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns a value as the JSON of serde.
pub fn value(json: &Json) -> serde_json::Value {
    serde_json::from_str(&json.to_string()).unwrap()
}

/// Returns a script as a filter with this name.
pub fn script(id: &str, text: &str) -> FilterEntry {
    let file = SourceFile::new(Kind::Filter, id, format!("filters/{id}.rhai"), text);
    let script = Script::compile(&file, &Settings::default()).unwrap_or_else(|problems| {
        panic!("{}", problems.iter().map(ToString::to_string).collect::<String>())
    });
    Arc::new(script).into_filter(Arc::default())
}

/// Returns a closure and a script of the same name, which must behave in the same way.
pub fn both(closure: FilterEntry, text: &str) -> [FilterEntry; 2] {
    let script = script(closure.name(), text);
    [closure, script]
}

/// A filter that records each of its hooks in the metadata of the turn.
pub fn recorder() -> FilterEntry {
    struct Recorder;
    impl HookRunner for Recorder {
        fn run(
            &self,
            hook: Hook,
            ctx: &mut FilterContext,
        ) -> Result<Verdict, valvehouse::error::PluginError> {
            note(&ctx.turn, hook.name());
            Ok(Verdict::Continue)
        }
    }
    FilterEntry::new("recorder", Hook::ALL.into_iter().collect(), Arc::new(Recorder))
}

/// Returns the same filter as a script.
pub fn recording_script() -> FilterEntry {
    script(
        "recorder",
        r#"
        fn note(metadata, word) { metadata.ensure("notes", []).push(word); }
        fn inlet(body, __metadata__) { note(__metadata__, "inlet"); }
        fn pre_chat(ctx) { note(ctx.metadata, "pre_chat"); }
        fn stream(event, __metadata__) { note(__metadata__, "stream"); }
        fn stream_end(state, __metadata__) { note(__metadata__, "stream_end"); }
        fn post_chat(ctx) { note(ctx.metadata, "post_chat"); ctx }
        fn pre_invocation(ctx) { note(ctx.metadata, "pre_invocation"); }
        fn post_invocation(ctx) { note(ctx.metadata, "post_invocation"); ctx }
        fn outlet(body, __metadata__) { note(__metadata__, "outlet"); body }
        "#,
    )
}

/// Records a word, which [`notes`] reads.
pub fn note(turn: &Turn, word: &str) {
    let notes = turn.metadata().ensure_path("notes", Json::array()).unwrap();
    notes.as_array().unwrap().push(word.into()).unwrap();
}

/// Returns the recorded words as one line.
pub fn notes(context: &Context) -> String {
    let notes = context.metadata().get("notes").unwrap_or_default();
    notes.items().iter().map(|word| word.as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
}

/// Returns a tool that returns its arguments.
pub fn echo() -> Tool {
    Tool::from_json_fn("echo", |args| Ok(args.into()))
}

/// Returns a tool that counts its calls in the context: 1, 2, 3 …
pub fn counter() -> Tool {
    Tool::from_json_fn_with_context("count", |_, context| {
        let next = context.get_or("counter", 0_i64).as_i64().unwrap() + 1;
        let context = context.set("counter", next);
        Ok(valvehouse::tool::ToolResult { context: Some(context), ..next.into() })
    })
}

/// Returns a reply with a text and tool calls, given as names and arguments.
pub fn calls(text: &str, calls: &[(&str, &str)]) -> Reply {
    let message = message::assistant(text);
    let calls = calls.iter().enumerate().map(|(n, (name, arguments))| {
        ModelCall { id: format!("call_{n}").into(), name: (*name).into(), arguments: (*arguments).into() }
            .to_json()
    });
    message.set("tool_calls", calls.collect::<Vec<Json>>()).unwrap();
    Reply::message(message)
}

/// Returns a kernel with these filters whose model replies with `answer`.
pub fn answering(answer: &str, filters: impl IntoIterator<Item = FilterEntry>) -> Kernel {
    Kernel::builder().provider(Arc::new(CannedProvider::new([answer]))).filters(filters).build()
}

/// Returns a builder with a canned model, and the model for inspection.
pub fn asking<R: Into<Reply>>(replies: impl IntoIterator<Item = R>) -> (KernelBuilder, CannedProvider) {
    let model = CannedProvider::new(replies);
    (Kernel::builder().provider(Arc::new(model.clone())), model)
}

/// Runs a whole turn with this user message.
pub async fn chat(kernel: &Kernel, text: &str) -> Result<TurnAnswer, Error> {
    kernel.chat_with_tools(vec![message::user(text)], ChatOptions::default()).await
}

/// Calls a tool.
pub async fn invoke(kernel: &Kernel, tool: &str, args: &str) -> Result<Json, Error> {
    kernel.invoke(tool, json(args), &Context::default()).await.map(|invoked| invoked.value)
}

/// Returns the texts of a role's messages in a request to the model.
pub fn texts_by_role(request: &Json, role: &str) -> Vec<String> {
    let messages = request.get("messages").unwrap_or_default().items();
    let of_role = messages.iter().filter(|message| message::role_of(message) == role);
    of_role.map(|message| message::text_of(message).into()).collect()
}

/// Returns the plugin that refused, its message and its status.
pub fn rejection<T>(result: Result<T, Error>) -> (String, String, u16) {
    match result {
        Err(Error::Rejected(rejection)) => (rejection.plugin, rejection.message, rejection.status),
        Err(other) => panic!("no rejection but {other:?}"),
        Ok(_) => panic!("nobody refused"),
    }
}

/// Returns the plugin that failed, the hook and the reason.
pub fn failure<T>(result: Result<T, Error>) -> (String, String, String) {
    match result {
        Err(Error::Broken(failure)) => (failure.plugin, failure.hook, failure.cause),
        Err(other) => panic!("no failure but {other:?}"),
        Ok(_) => panic!("nothing broke"),
    }
}

/// The events that a streaming client received, and the result of the turn.
pub struct StreamedTurn {
    pub pieces: Vec<StreamChunk>,
    pub answer: Result<Json, Error>,
    pub turn: Turn,
}

/// Returns a body as a chat request.
pub fn request(body: Json) -> ChatRequest {
    ChatRequest::new(body).unwrap()
}

/// Runs a turn with a streaming client.
pub async fn stream(kernel: &Kernel) -> StreamedTurn {
    stream_body(kernel, r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}"#).await
}

/// Runs a turn with a streaming client and the given body.
pub async fn stream_body(kernel: &Kernel, body: &str) -> StreamedTurn {
    run(kernel, request(json(body)), Turn::default(), true).await
}

/// Reads a turn to its end.
pub async fn run(kernel: &Kernel, request: ChatRequest, turn: Turn, is_streamed: bool) -> StreamedTurn {
    let mut stream = kernel.run(request, RunOptions::new(turn.clone()).streamed(is_streamed));
    let mut pieces = Vec::new();
    loop {
        let answer = match stream.next().await.expect("a turn ends with an answer or a error") {
            Ok(TurnEvent::Chunk(piece)) => {
                pieces.push(piece);
                continue;
            }
            Ok(TurnEvent::Answer(answer)) => Ok(answer.reply),
            Ok(TurnEvent::Emitted(_) | TurnEvent::Passthrough(_)) => panic!("nobody wished for it"),
            Err(error) => Err(error),
        };
        assert!(stream.next().await.is_none(), "something comes after the end");
        return StreamedTurn { pieces, answer, turn };
    }
}

impl StreamedTurn {
    fn of_choice(&self, index: i64) -> Vec<Json> {
        let choices =
            self.pieces.iter().flat_map(|piece| piece.event.get("choices").unwrap_or_default().items());
        choices.filter(|choice| choice.get("index").and_then(|own| own.as_i64()) == Some(index)).collect()
    }

    /// Returns the non-empty text deltas of one choice.
    pub fn texts_of(&self, index: i64) -> Vec<String> {
        let texts = self.of_choice(index).into_iter().map(|choice| choice.at_path("delta"));
        texts.map(|delta| String::from(message::text_of(&delta))).filter(|text| !text.is_empty()).collect()
    }

    pub fn texts(&self) -> Vec<String> {
        self.texts_of(0)
    }

    /// Returns the text of a choice and its finish reason. Checks that there is one finish reason, after
    /// everything else.
    pub fn text_of(&self, index: i64) -> String {
        let choices = self.of_choice(index);
        let ends = choices.iter().filter(|choice| choice.text("finish_reason").is_some()).count();
        let last = choices.last().and_then(|choice| choice.text("finish_reason")).unwrap_or_default();
        assert_eq!(ends, 1, "{:?}: {:?}", self.answer.as_ref().err(), self.pieces);
        format!("{}|{last}", self.texts_of(index).concat())
    }

    /// Returns the text of the first choice. Checks that the whole stream is well formed.
    pub fn text(&self) -> String {
        let events: Vec<_> = self.pieces.iter().map(|piece| value(&piece.event)).collect();
        if let Err(wrong) = crate::well_formed::check(&events) {
            panic!("{wrong}: {events:?} {:?}", self.answer.as_ref().err());
        }
        self.text_of(0)
    }

    /// Returns the text of the whole response.
    pub fn answer(&self) -> String {
        message::text_of(&self.answer.as_ref().unwrap().at_path("choices.0.message")).into()
    }
}
