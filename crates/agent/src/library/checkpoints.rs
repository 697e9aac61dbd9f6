//! Checkpoints of an agent, and its state as JSON.

use super::agent::Agent;
use crate::memory;
use crate::pending::conflict;
use crate::saved::RunSnapshot;
use crate::state::AgentState;
use crate::summary::Summarization;
use valvehouse_core::callback::Callback;
use valvehouse_core::error::Error;
use valvehouse_json::Json;
use valvehouse_store::{Checkpoint, NewRun, Run, RunStart, RunStatus, RunStep, Store};

impl Agent {
    /// Stores the current state and returns the id of its checkpoint. With `auto_checkpoint`, it is already
    /// stored.
    ///
    /// # Errors
    /// Returns an error if the agent has neither storage nor a run, or if the store fails.
    pub async fn save_checkpoint(&mut self) -> Result<String, Error> {
        let store = self.storage()?.clone();
        if self.runs.is_none() {
            self.save_to(&store).await?;
        }
        let latest = store.checkpoints(&self.conversation, 1).await?;
        let latest = latest.into_iter().next().map(|checkpoint| checkpoint.id);
        latest.ok_or_else(|| conflict("cannot store a checkpoint: the conversation is empty"))
    }

    /// Stores the state as a named run of its own.
    pub(super) async fn save_to(&self, store: &Store) -> Result<String, Error> {
        let stored = store.conversation(&self.conversation).await?;
        let expected = stored.map_or(0, |stored| stored.length);
        let known = usize::try_from(expected).unwrap_or(usize::MAX);
        let news = self.state.messages.get(known..).ok_or_else(|| {
            conflict(
                "cannot store the conversation: it was continued elsewhere; load its latest checkpoint first",
            )
        })?;
        let (run, owner) = (uuid::Uuid::now_v7().to_string(), self.state.id.as_str());
        let beginning = NewRun {
            run: &run,
            conversation: &self.conversation,
            agent: &self.state.id,
            owner,
            pid: std::process::id(),
            expected,
            messages: news,
            first: None,
        };
        let begun = match store.begin_run(&beginning).await? {
            RunStart::Begun(begun) => begun,
            RunStart::Busy(_) | RunStart::Moved(_) => {
                return Err(conflict(
                    "cannot store the conversation: another run is using it; try again when that has ended",
                ));
            }
        };
        let unfinished = self.unfinished().cloned();
        let status = if unfinished.is_some() { RunStatus::Paused } else { RunStatus::Done };
        let saved = unfinished.unwrap_or_else(|| self.standing());
        let (state, pending) = (saved.to_json(), saved.pending.clone());
        let step = RunStep {
            run: &run,
            owner,
            expected: begun.step,
            messages: &[],
            checkpoint: Some(("saved", &state)),
            status,
            pending: &pending,
            error: "",
            kept: Some(&self.kept),
        };
        store.keep_step(&step).await?;
        Ok(run)
    }

    /// Returns the checkpoints of the conversation without their states, newest first.
    ///
    /// # Errors
    /// Returns an error if the agent has no storage or the store fails.
    pub async fn list_checkpoints(&self) -> Result<Vec<Checkpoint>, Error> {
        self.storage()?.checkpoints(&self.conversation, u64::from(u32::MAX)).await.map_err(Error::from)
    }

    /// Restores the latest checkpoint of the conversation. Returns `false` if it has none.
    ///
    /// # Errors
    /// Returns an error if the agent has no storage or the store fails.
    pub async fn load_latest(&mut self) -> Result<bool, Error> {
        let latest = self.storage()?.checkpoints(&self.conversation, 1).await?;
        let Some(latest) = latest.into_iter().next() else { return Ok(false) };
        self.load_checkpoint(&latest.id).await?;
        Ok(true)
    }

    /// Restores a checkpoint. If the conversation has later messages, it continues in a branch, so that no
    /// message is lost.
    ///
    /// # Errors
    /// Returns an error if the agent has no storage, the checkpoint does not exist, or the store fails.
    pub async fn load_checkpoint(&mut self, id: &str) -> Result<(), Error> {
        let store = self.storage()?.clone();
        let checkpoint = store.checkpoint(id).await?;
        let checkpoint = checkpoint.ok_or_else(|| conflict(format!("unknown checkpoint `{id}`")))?;
        let saved = RunSnapshot::from_json(&checkpoint.state)?;
        let messages = store.messages(&checkpoint.conversation, 0, checkpoint.length).await?;
        let kept = memory::leaving(&memory::remembering(&Json::object(), &messages), &saved);
        let stored = store.conversation(&checkpoint.conversation).await?;
        self.conversation.clone_from(&checkpoint.conversation);
        let is_latest = stored.is_some_and(|stored| stored.length == checkpoint.length);
        if !is_latest {
            self.conversation = branch(&store, &checkpoint, &kept).await?;
        }
        let run = store.run(&checkpoint.run).await?;
        let latest = store.latest_checkpoint(&checkpoint.run).await?;
        let stands_here = is_latest && latest.is_some_and(|latest| latest.id == checkpoint.id);
        let goes_on = stands_here && run.as_ref().is_some_and(is_open);
        self.state.run_id = run.filter(|_| goes_on).map(|run| run.id);
        self.state.pending_action =
            Some(saved.pending.deep_clone()).filter(|pending| goes_on && !pending.is_null());
        self.state.messages = messages;
        self.note(&saved);
        self.kept = kept;
        Ok(())
    }

    /// Exports the complete agent as JSON for [`Agent::import_state`].
    pub fn export_state(&self) -> Json {
        let saved = self.latest.as_ref().map(RunSnapshot::to_json);
        Json::from([
            ("version", 1i64.into()),
            ("state", self.state.to_json()),
            ("conversation", self.conversation.as_str().into()),
            ("variables", self.variables.deep_clone()),
            ("kept", self.kept.deep_clone()),
            ("saved", saved.into()),
        ])
    }

    /// Imports the settings, the conversation and the pending action of an exported agent. This agent's
    /// provider, tool handlers and callbacks are preserved.
    ///
    /// # Errors
    ///
    /// Returns a request error and does not change this agent if the export is damaged or names a tool, a
    /// callback or a storage that this agent lacks.
    pub fn import_state(&mut self, exported: &Json) -> Result<(), Error> {
        if exported.get("version").and_then(|version| version.as_i64()) != Some(1) {
            return Err(damaged("version"));
        }
        let state = exported.get("state").ok_or_else(|| damaged("state"))?;
        let state = self.imported(&state)?;
        let saved = match exported.get("saved") {
            None | Some(Json::Null) => None,
            Some(saved) => Some(RunSnapshot::from_json(&saved)?),
        };
        let conversation = exported.text("conversation").ok_or_else(|| damaged("conversation"))?;
        let object = |name: &str| {
            exported.get(name).filter(|part| part.as_object().is_some()).ok_or_else(|| damaged(name))
        };
        let (variables, kept) = (object("variables")?.deep_clone(), object("kept")?.deep_clone());
        let before = std::mem::replace(&mut self.state, state);
        if let Err(error) = self.assemble() {
            self.state = before;
            self.assemble()?;
            return Err(error);
        }
        self.conversation = conversation.into();
        (self.variables, self.kept, self.latest) = (variables, kept, saved);
        Ok(())
    }

    /// Returns the imported state with the handlers of this agent.
    fn imported(&self, state: &Json) -> Result<AgentState, Error> {
        let text = |name: &str| state.text(name).map(String::from).ok_or_else(|| damaged(name));
        let list = |name: &str| match state.get(name) {
            Some(Json::Array(items)) => Ok(items.items().iter().map(Json::deep_clone).collect::<Vec<_>>()),
            _ => Err(damaged(name)),
        };
        let given =
            |name: &str| state.get(name).filter(|value| !value.is_null()).map(|value| value.deep_clone());
        let truth =
            |name: &str| state.get(name).and_then(|value| value.as_bool()).ok_or_else(|| damaged(name));
        let names = |name: &str| {
            let names = list(name)?.into_iter().map(|own| own.as_str().map(str::to_owned));
            names.collect::<Option<Vec<String>>>().ok_or_else(|| damaged(name))
        };
        let missing = |what: &str, name: &str| {
            let message = format!(
                "cannot import the agent: it has {what} `{name}`, which this agent lacks; build this agent with it"
            );
            Err(Error::invalid(message, None))
        };
        if let Some(name) =
            names("tool_handlers")?.iter().find(|name| !self.state.tool_handlers.contains_key(*name))
        {
            return missing("the tool", name);
        }
        let handles =
            |name: &str| Callback::from_name(name).is_some_and(|known| self.state.callbacks.handles(known));
        if let Some(name) = names("callbacks")?.iter().find(|name| !handles(name)) {
            return missing("the callback", name);
        }
        let auto_checkpoint = truth("auto_checkpoint")?;
        if auto_checkpoint && self.state.storage.is_none() {
            return missing("a storage for", "auto_checkpoint");
        }
        let most = state.get("max_iterations").and_then(|most| most.as_i64());
        let most = most.and_then(|most| usize::try_from(most).ok()).filter(|most| *most > 0);
        let middlewares = list("middlewares")?.into_iter().map(|one| {
            let options = one.get("options").unwrap_or_else(Json::object);
            Some((one.text("name")?.into(), options.deep_clone()))
        });
        let window = given("buffer_config").map(|window| {
            let size = window.get("window_size").and_then(|size| size.as_i64());
            size.and_then(|size| usize::try_from(size).ok()).ok_or_else(|| damaged("buffer_config"))
        });
        let window = window.transpose()?;
        Ok(AgentState {
            id: text("id")?,
            name: text("name")?,
            system_prompt: text("system_prompt")?,
            llm_config: given("llm_config").ok_or_else(|| damaged("llm_config"))?,
            graph: given("graph"),
            max_iterations: most.ok_or_else(|| damaged("max_iterations"))?,
            messages: list("messages")?,
            buffer_config: window
                .map(|window_size| Summarization { window_size, ..Summarization::default() }),
            scratchpad: list("scratchpad")?,
            pending_action: given("pending_action"),
            response_format: given("response_format"),
            middlewares: middlewares.collect::<Option<_>>().ok_or_else(|| damaged("middlewares"))?,
            auto_checkpoint,
            run_id: state.text("run_id").map(String::from),
            ..self.state.clone()
        })
    }
}

fn damaged(what: &str) -> Error {
    Error::invalid(
        format!("cannot import the agent: its `{what}` is missing or damaged; export it again"),
        None,
    )
}

/// Returns `true` if a run has not ended.
fn is_open(run: &Run) -> bool {
    !matches!(run.status, RunStatus::Done | RunStatus::Cancelled)
}

/// Creates a branch of a conversation at a checkpoint.
async fn branch(store: &Store, checkpoint: &Checkpoint, kept: &Json) -> Result<String, Error> {
    for number in 1.. {
        let id = format!("{}~{number}", checkpoint.conversation);
        if store.fork(&checkpoint.conversation, checkpoint.length, &id, kept).await? {
            return Ok(id);
        }
    }
    Err(Error::Host("cannot create a branch: all branch numbers are in use".into()))
}
