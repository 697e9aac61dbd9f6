//! Runs the script in its environment: a hook, a whole turn, a stream or a tool, through the same chain and turn as
//! in every host.

use super::canned::Model;
use super::environment::TestEnvironment;
use super::functions::body_of;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use valvehouse_core::chat::ChatRequest;
use valvehouse_core::error::Error;
use valvehouse_core::filter::{Hook, Hooks};
use valvehouse_core::kernel::{Kernel, ModelDefaults, RunOptions, TurnEvent, TurnStream};
use valvehouse_core::tool::Tool;
use valvehouse_json::Json;
use valvehouse_script::{Pipes, SandboxRun, SandboxScript};

impl TestEnvironment {
    /// Runs one hook of the script.
    pub(super) async fn hook(self: Arc<Self>, hook: Hook, value: Json) -> Result<Json, Error> {
        let made = self.made().map_err(Error::Host)?;
        let turn = self.turn();
        made.own.chain().tools(made.tools()).build().runs(&turn);
        if matches!(hook, Hook::PreChat | Hook::PostChat | Hook::PreInvocation | Hook::PostInvocation) {
            for (name, own) in [("context", turn.context().as_json()), ("metadata", turn.metadata().clone())]
            {
                if value.get(name).is_none() {
                    value.edit(name, own);
                }
            }
        }
        let SandboxRun { word, cause, value, error, .. } = made.own.hook(hook, value, &turn).await;
        self.answered_in(&turn).await;
        if let ("ignored", Some(cause)) = (word, cause) {
            // With `on_error: continue`, the failure would not be visible otherwise.
            self.recording.trace().line(
                made.own.script.id(),
                "error",
                &format!("{hook} failed, and `on_error: continue` ignores it: {cause}"),
            );
        }
        match (error, value) {
            (Some(error), _) => Err(error),
            (None, Some(value)) if word != "no_hook" => {
                if word == "skip" {
                    self.skipped.store(true, Relaxed);
                }
                Ok(value)
            }
            _ => Err(Error::Host(format!("the script has no `{hook}`"))),
        }
    }

    /// Runs a whole turn with the script. Also returns the events of a streamed answer.
    pub(super) async fn chat(self: Arc<Self>, body: Json, stream: bool) -> Result<(Json, Vec<Json>), Error> {
        let kernel = self.kernel(self.model.clone(), Hooks::default())?;
        self.answered(&kernel, body, stream).await
    }

    /// Passes the chunks of an answer through the stream hooks only.
    pub(super) async fn stream(self: Arc<Self>, chunks: Json) -> Result<(Json, Vec<Json>), Error> {
        let others = Hook::ALL.into_iter().filter(|hook| !matches!(hook, Hook::Stream | Hook::StreamEnd));
        let model = Model::default();
        model.answers(&chunks);
        let kernel = self.kernel(model, others.collect())?;
        self.answered(&kernel, body_of("hello"), true).await
    }

    /// Calls one of the script's tools, with the filters that a turn would apply.
    pub(super) async fn invoke(self: Arc<Self>, name: Option<String>, args: Json) -> Result<Json, Error> {
        let made = self.made().map_err(Error::Host)?;
        let names: Vec<&str> = made.own.tools.iter().map(Tool::name).collect();
        let name = match (&name, names.as_slice()) {
            (Some(name), _) => name.as_str(),
            (None, [only]) => only,
            (None, []) => return Err(Error::Host("the script has no tools".into())),
            (None, _) => {
                let names = names.join(", ");
                return Err(Error::Host(format!(
                    "the script has several tools; pass the name of one: {names}"
                )));
            }
        };
        let kernel = Kernel::builder().tools(made.tools()).build();
        let turn = self.same_turn();
        let invoked = kernel.invoke_in(name, args, &turn).await;
        self.answered_in(&turn).await;
        let invoked = invoked?;
        self.turn().context().take(&invoked.context);
        Ok(invoked.value)
    }

    /// Presses one of the script's buttons, with the tools that a turn would have.
    pub(super) async fn press(self: Arc<Self>, button: Option<String>, body: Json) -> Result<Json, Error> {
        let made = self.made().map_err(Error::Host)?;
        let action = made.own.script.clone().into_action(made.own.users.clone());
        let action = action.ok_or_else(|| Error::Host("the script has no `action`".into()))?;
        let pressed = action.choose(button.as_deref()).ok_or_else(|| {
            let ids = action.own_ids();
            Error::Host(match &button {
                Some(name) => format!("unknown button `{name}`; the buttons are {ids}"),
                None => format!("the script has several buttons; pass the id of one: {ids}"),
            })
        })?;
        let turn = self.same_turn();
        Kernel::builder().tools(made.tools()).build().runs(&turn);
        let result = action.press(pressed, body, &turn).await;
        self.answered_in(&turn).await;
        result
    }

    fn kernel(&self, model: Model, spared: Hooks) -> Result<Kernel, Error> {
        let made = self.made().map_err(Error::Host)?;
        let SandboxScript { script, users, filter, .. } = &made.own;
        let settings = ModelDefaults {
            hold: script.manifest.hold,
            files_handled: script.manifest.file_handler,
            ..ModelDefaults::default()
        };
        let kernel =
            Kernel::builder().filter(filter.clone().sparing(spared)).tools(made.tools()).settings(settings);
        let kernel = match script.clone().into_pipe(users.clone()) {
            Some(pipe) => kernel.provider(Arc::new(Pipes::new(vec![pipe]))),
            None => kernel.provider(Arc::new(model)),
        };
        Ok(kernel.build())
    }

    async fn answered(
        self: &Arc<Self>,
        kernel: &Kernel,
        body: Json,
        stream: bool,
    ) -> Result<(Json, Vec<Json>), Error> {
        if body.get("model").is_none() {
            let offered =
                self.made().map_err(Error::Host)?.own.script.offers().first().map(|offer| offer.id.clone());
            let model = offered.or_else(|| self.turn().facts().model.text("id").map(String::from));
            body.edit("model", model.unwrap_or_else(|| "test".into()));
        }
        let turn = self.same_turn();
        let options = RunOptions::new(turn.clone()).streamed(stream);
        let answered = collected(kernel.run(ChatRequest::new(body)?, options)).await;
        self.answered_in(&turn).await;
        answered
    }
}

/// Returns the answer of a turn, and its events.
async fn collected(mut answer: TurnStream<'_>) -> Result<(Json, Vec<Json>), Error> {
    let mut events = Vec::new();
    while let Some(event) = answer.next().await {
        match event? {
            TurnEvent::Chunk(chunk) => events.push(chunk.event),
            TurnEvent::Answer(answer) => return Ok((answer.reply, events)),
            TurnEvent::Emitted(_) | TurnEvent::Passthrough(_) => {}
        }
    }
    Err(Error::Host("the turn ended without an answer".into()))
}
