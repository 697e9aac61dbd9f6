//! A real agent next to the expected one.

use super::oracle::{Entry, Oracle, Phase};
use super::{Action, Answer, Choice, Kind, Plan, Storage};
use crate::agent_state::{lines, store};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tempfile::TempDir;
use valvehouse::agent::{Agent, AgentResponse, Decision};
use valvehouse::chat::{ModelCall, message, response::Head};
use valvehouse::error::Error;
use valvehouse::json::Json;
use valvehouse::provider::{self, Provider, Request};
use valvehouse::store::Store;
use valvehouse::tool::{Tool, ToolError};

pub(super) struct World {
    plan: Plan,
    agent: Agent,
    model: Arc<Model>,
    broken: Arc<Mutex<HashSet<i64>>>,
    storage: Option<(TempDir, Arc<Store>)>,
    oracle: Oracle,
    /// The messages of each stored conversation.
    lines: HashMap<String, Vec<Entry>>,
    /// The phase of the run at its newest checkpoint.
    phases: HashMap<String, Phase>,
    /// The messages and the phase at each checkpoint.
    saved: HashMap<String, (Vec<Entry>, Phase)>,
    checkpoints: Vec<String>,
    texts: usize,
}

/// Replies with the planned calls and texts, numbered, and then with texts.
#[derive(Default)]
struct Model {
    answers: Mutex<Vec<Answer>>,
    next: Mutex<usize>,
    requests: Mutex<Vec<Json>>,
    writes: bool,
}

impl Model {
    fn answer(&self, request: &Request) -> Result<provider::Answer, Error> {
        let body = &request.body;
        let down = || Error::Provider { message: "it is down".into(), timeout: false };
        let head = Head::new("m");
        // The request for a summary offers no tools.
        if body.get("tools").is_none() {
            let summary = || provider::Answer::Whole(head.text("they talked"));
            return if self.writes { Ok(summary()) } else { Err(down()) };
        }
        self.requests.lock().push(body.deep_clone());
        let mut answers = self.answers.lock();
        let answer = if answers.is_empty() { Answer::Text } else { answers.remove(0) };
        let mut next = self.next.lock();
        match answer {
            Answer::Fails => Err(down()),
            Answer::Text => Ok(provider::Answer::Whole(head.text(&format!("text {next}")))),
            Answer::Calls(kinds) => {
                let message = message::assistant("");
                let calls = kinds.iter().enumerate().map(|(place, kind)| {
                    let number = *next + place;
                    let (id, arguments) =
                        (format!("call_{number}").into(), format!("{{\"n\":{number}}}").into());
                    ModelCall { id, name: kind.name().into(), arguments }.to_json()
                });
                message.set("tool_calls", calls.collect::<Vec<Json>>()).unwrap();
                *next += kinds.len();
                Ok(provider::Answer::Whole(head.completion(message, "tool_calls")))
            }
        }
    }
}

impl Provider for Model {
    fn name(&self) -> &str {
        "planned"
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<provider::Answer, Error>> {
        Box::pin(std::future::ready(self.answer(&request)))
    }
}

fn tool(kind: Kind, broken: Arc<Mutex<HashSet<i64>>>) -> Tool {
    Tool::from_json_fn(kind.name(), move |args| {
        let number = args.get("n").unwrap_or_default();
        let is_first = kind == Kind::Breaks && broken.lock().insert(number.as_i64().unwrap_or_default());
        let text = number.as_str().map_or_else(|| number.to_string(), str::to_owned);
        match kind {
            Kind::Fails => Err(format!("cannot {text}").into()),
            Kind::Breaks if is_first => Err(ToolError::from("it broke").fatal()),
            _ => Ok(format!("did {text}").into()),
        }
    })
}

impl World {
    pub(super) async fn new(plan: &Plan) -> Self {
        let storage = if plan.kept == Storage::Nowhere { None } else { Some(store().await) };
        let model = Arc::new(Model { writes: plan.writes, ..Model::default() });
        let broken = Arc::default();
        let agent = build(plan, &model, &broken, storage.as_ref().map(|(_, store)| store.clone()));
        Self {
            plan: plan.clone(),
            agent,
            model,
            broken,
            storage,
            oracle: Oracle::new(),
            lines: HashMap::new(),
            phases: HashMap::new(),
            saved: HashMap::new(),
            checkpoints: Vec::new(),
            texts: 0,
        }
    }

    fn store(&self) -> Option<Arc<Store>> {
        self.storage.as_ref().map(|(_, store)| store.clone())
    }

    fn plans(&mut self, answers: &[Answer]) -> usize {
        *self.model.answers.lock() = answers.to_vec();
        *self.model.next.lock()
    }

    pub(super) async fn does(&mut self, action: &Action) {
        match action {
            Action::Say { answers, streamed } => {
                let next = self.plans(answers);
                let text = format!("user {}", self.texts);
                self.texts += 1;
                self.oracle.user_message(&text, answers, next);
                let outcome = match streamed {
                    true => streamed_answer(&mut self.agent, &text).await,
                    false => self.agent.run(&text).await,
                };
                let failed = matches!(self.oracle.phase, Phase::Failed | Phase::Broken);
                assert_eq!(outcome.is_err(), failed, "{outcome:?}");
            }
            Action::Decide { choice, answers } => {
                let next = self.plans(answers);
                let can = self.oracle.decides(*choice, answers, next);
                let outcome = self.agent.resume(decision(*choice)).await;
                let failed = matches!(self.oracle.phase, Phase::Failed | Phase::Broken);
                assert_eq!(outcome.is_err(), !can || failed, "{:?}: {outcome:?}", self.oracle.phase);
            }
            Action::Move => {
                let text = self.agent.export_state().to_string();
                self.agent = build(&self.plan, &self.model, &self.broken, self.store());
                self.agent.import_state(&Json::parse(text.as_bytes()).unwrap()).unwrap();
                assert_eq!(self.agent.export_state().to_string(), text);
            }
            Action::Save => {
                let id = self.agent.save_checkpoint().await;
                if let (Ok(id), Storage::WhenAsked) = (id, self.plan.kept) {
                    self.saved.insert(id, (self.oracle.entries.clone(), self.oracle.phase));
                }
            }
            Action::Load(back) => self.loads(*back).await,
        }
        self.knows_checkpoints().await;
    }

    async fn loads(&mut self, back: usize) {
        let Some(store) = self.store() else { return };
        let Some(id) = self.checkpoints.iter().rev().nth(back % self.checkpoints.len().max(1)).cloned()
        else {
            return;
        };
        let checkpoint = store.checkpoint(&id).await.unwrap().unwrap();
        let (entries, phase) = match self.plan.kept {
            Storage::Always => {
                let entries = &self.lines[&checkpoint.conversation];
                let phase = self.phases.get(&id).copied().unwrap_or(Phase::Idle);
                (entries[..usize::try_from(checkpoint.length).unwrap()].to_vec(), phase)
            }
            _ => self.saved[&id].clone(),
        };
        self.agent.load_checkpoint(&id).await.unwrap();
        let newest = store.checkpoints(&checkpoint.conversation, 1).await.unwrap().remove(0).id == id;
        let goes_on = self.agent.state().run_id.is_some();
        assert!(!newest || goes_on || phase == Phase::Idle, "{phase:?} cannot be gone on with");
        self.oracle.becomes(entries, if goes_on { phase } else { Phase::Idle });
    }

    async fn knows_checkpoints(&mut self) {
        if self.storage.is_none() {
            return;
        }
        self.lines.insert(self.agent.conversation().to_owned(), self.oracle.entries.clone());
        let stored = self.agent.list_checkpoints().await.unwrap();
        // A run that loading an older checkpoint has left keeps its phase.
        if let (Some(newest), Some(_)) = (stored.first(), &self.agent.state().run_id) {
            self.phases.insert(newest.id.clone(), self.oracle.phase);
        }
        for checkpoint in stored.into_iter().rev() {
            if !self.checkpoints.contains(&checkpoint.id) {
                self.checkpoints.push(checkpoint.id);
            }
        }
    }

    pub(super) async fn is_as_expected(&self, action: &Action) {
        let expected = &self.oracle.entries;
        let remembered = lines(&self.agent.state().messages);
        let is_same = |lines: &[String]| {
            lines.len() == expected.len() && lines.iter().zip(expected).all(|(line, entry)| entry.is(line))
        };
        assert!(is_same(&remembered), "{action:?}: {remembered:#?} is not {expected:#?}");
        if let (Some((_, store)), Storage::Always) = (&self.storage, self.plan.kept) {
            let stored = store.messages(self.agent.conversation(), 0, 10_000).await.unwrap();
            assert!(is_same(&lines(&stored)), "{action:?}: {stored:#?} is not {expected:#?}");
        }
        let paused = self.agent.state().pending_action.is_some();
        assert_eq!(paused, self.oracle.phase == Phase::Paused, "{action:?}: {:?}", self.oracle.phase);
        let open = self.oracle.open().len();
        assert_eq!(unanswered(&self.agent.state().messages), open);
        let graph = self.agent.graph_state();
        assert!(unanswered(&graph.get("messages").unwrap().items()) <= open);
        for request in self.model.requests.lock().drain(..) {
            let messages = request.get("messages").unwrap().items();
            assert_eq!(unanswered(&messages), 0, "{action:?}: the model saw {:#?}", lines(&messages));
        }
    }
}

/// Returns the number of calls without a result. Every other call has exactly one result, which follows it
/// before any other message.
fn unanswered(messages: &[Json]) -> usize {
    let mut open: Vec<String> = Vec::new();
    let mut left = 0;
    for message in messages {
        if message::role_of(message) == "tool" {
            let id = message.text("tool_call_id").unwrap();
            let place = open.iter().position(|own| *own == *id);
            open.remove(place.unwrap_or_else(|| panic!("{id} is not an open call: {:#?}", lines(messages))));
        } else {
            left += open.len();
            open = ModelCall::all(message).into_iter().map(|call| call.id.into()).collect();
        }
    }
    left + open.len()
}

fn decision(choice: Choice) -> Decision {
    match choice {
        Choice::Approve => Decision::Approve { arguments: None },
        Choice::Change => Decision::Approve { arguments: Some(Json::from([("n", "other".into())])) },
        Choice::Reject => Decision::Reject { reason: Some("not today".into()) },
        Choice::Answer(answer) => Decision::Answer(answer.into()),
        Choice::GoOn => Decision::GoOn,
        Choice::Retry => Decision::Retry,
    }
}

fn build(
    plan: &Plan,
    model: &Arc<Model>,
    broken: &Arc<Mutex<HashSet<i64>>>,
    storage: Option<Arc<Store>>,
) -> Agent {
    let summary = Json::from([
        ("window_size", plan.window.into()),
        ("compress_threshold", plan.threshold.into()),
        ("summarize", true.into()),
    ]);
    let approval =
        Json::from([("mode", "selective".into()), ("tools", vec![Json::from(Kind::Guarded.name())].into())]);
    let builder = Agent::builder().id("a").provider(model.clone()).conversation("c");
    let builder = builder.middleware(("summarization", summary)).middleware(("human_approval", approval));
    let tools = Kind::ALL.into_iter().map(|kind| tool(kind, broken.clone()));
    let builder = tools.fold(builder, |builder, tool| builder.tool(tool));
    let builder = match storage {
        Some(store) => builder.storage(store).auto_checkpoint(plan.kept == Storage::Always),
        None => builder,
    };
    builder.build().unwrap()
}

async fn streamed_answer(agent: &mut Agent, text: &str) -> Result<AgentResponse, Error> {
    let mut stream = agent.stream(text);
    while let Some(chunk) = stream.next().await {
        chunk?;
    }
    Ok(stream.response().unwrap())
}
