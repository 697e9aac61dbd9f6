//! Export of a conversation as one JSON object, and its import.

use crate::conversation::{Checkpoint, Conversation, Run, RunStatus};
use std::collections::HashSet;
use valvehouse_json::Json;

/// The nesting levels around a message of an exported conversation.
pub(super) const AROUND_MESSAGE: usize = 2;
/// The nesting levels around the kept values.
pub(super) const AROUND_KEPT: usize = 1;
/// The nesting levels around a pending action.
pub(super) const AROUND_PENDING: usize = 3;
/// The nesting levels around the state of a checkpoint.
pub(super) const AROUND_STATE: usize = 5;

const FORMAT: &str = "valvehouse conversation 1";

/// A conversation with its messages, runs and checkpoints.
pub(super) struct ConversationExport {
    pub(super) conversation: Conversation,
    pub(super) messages: Vec<Json>,
    /// The runs in order of creation, each with its checkpoints in the order of their steps.
    pub(super) runs: Vec<(Run, Vec<Checkpoint>)>,
}

impl ConversationExport {
    pub(super) fn to_json(&self) -> Json {
        let conversation = &self.conversation;
        let forked_from = conversation.forked_from.as_ref().map(|(from, length)| {
            Json::from([("conversation", from.as_str().into()), ("length", (*length).into())])
        });
        Json::from([
            ("format", FORMAT.into()),
            ("id", conversation.id.as_str().into()),
            ("agent", conversation.agent.as_str().into()),
            ("created_at", conversation.created_at.into()),
            ("updated_at", conversation.updated_at.into()),
            ("forked_from", forked_from.into()),
            ("kept", conversation.kept.clone()),
            ("messages", self.messages.clone().into()),
            ("runs", self.runs.iter().map(run_to_json).collect::<Vec<_>>().into()),
        ])
    }

    /// Reads an exported conversation. The error names the path of the invalid value.
    pub(super) fn read(json: &Json) -> Result<Self, String> {
        let whole = Part { json: json.clone(), path: String::new() };
        if json.text("format").as_deref() != Some(FORMAT) {
            return Err(whole.wrong("format", &format!("\"{FORMAT}\"")));
        }
        let messages = whole.list("messages")?;
        let conversation = Conversation {
            id: whole.text("id")?,
            agent: whole.text("agent")?,
            length: messages.len() as u64,
            kept: whole.object("kept")?,
            forked_from: whole.forked_from()?,
            created_at: whole.time("created_at")?,
            updated_at: whole.time("updated_at")?,
        };
        let runs = whole.parts("runs")?;
        let runs: Vec<_> = runs.iter().map(|run| run.as_run(&conversation)).collect::<Result<_, String>>()?;
        fits_together(&runs)?;
        Ok(Self { conversation, messages, runs })
    }
}

fn run_to_json((run, checkpoints): &(Run, Vec<Checkpoint>)) -> Json {
    Json::from([
        ("id", run.id.as_str().into()),
        ("status", run.status.name().into()),
        ("step", run.step.into()),
        ("pending", run.pending.clone()),
        ("error", run.error.as_str().into()),
        ("created_at", run.created_at.into()),
        ("updated_at", run.updated_at.into()),
        ("checkpoints", checkpoints.iter().map(checkpoint_to_json).collect::<Vec<_>>().into()),
    ])
}

fn checkpoint_to_json(checkpoint: &Checkpoint) -> Json {
    Json::from([
        ("id", checkpoint.id.as_str().into()),
        ("step", checkpoint.step.into()),
        ("length", checkpoint.length.into()),
        ("name", checkpoint.name.as_str().into()),
        ("saved_at", checkpoint.saved_at.into()),
        ("state", checkpoint.state.clone()),
    ])
}

fn fits_together(runs: &[(Run, Vec<Checkpoint>)]) -> Result<(), String> {
    if runs.iter().filter(|(run, _)| run.status.can_go_on()).count() > 1 {
        return Err("more than one of its `runs` is running, paused or failed".to_owned());
    }
    let (mut run_ids, mut checkpoint_ids) = (HashSet::new(), HashSet::new());
    for (run, checkpoints) in runs {
        if !run_ids.insert(&run.id) {
            return Err(format!("two of its `runs` have the id {:?}", run.id));
        }
        if let Some(twice) = checkpoints.iter().find(|checkpoint| !checkpoint_ids.insert(&checkpoint.id)) {
            return Err(format!("two of its checkpoints have the id {:?}", twice.id));
        }
        if !checkpoints.is_sorted_by(|earlier, later| earlier.step < later.step) {
            return Err(format!(
                "the checkpoints of the run {:?} are not in the order of their steps",
                run.id
            ));
        }
    }
    Ok(())
}

/// An object within an exported conversation, and its path.
struct Part {
    json: Json,
    path: String,
}

impl Part {
    fn as_run(&self, conversation: &Conversation) -> Result<(Run, Vec<Checkpoint>), String> {
        let status = RunStatus::from_name(&self.text("status")?);
        let run = Run {
            id: self.text("id")?,
            conversation: conversation.id.clone(),
            status: status.ok_or_else(|| self.wrong("status", &statuses()))?,
            step: self.number("step", u64::MAX)?,
            owner: String::new(),
            pid: 0,
            pending: self.value("pending")?,
            error: self.text("error")?,
            seen_at: 0,
            created_at: self.time("created_at")?,
            updated_at: self.time("updated_at")?,
        };
        let checkpoints = self.parts("checkpoints")?;
        let checkpoints = checkpoints.iter().map(|checkpoint| checkpoint.as_checkpoint(conversation, &run));
        let checkpoints = checkpoints.collect::<Result<_, _>>()?;
        Ok((run, checkpoints))
    }

    fn as_checkpoint(&self, conversation: &Conversation, run: &Run) -> Result<Checkpoint, String> {
        Ok(Checkpoint {
            id: self.text("id")?,
            conversation: conversation.id.clone(),
            run: run.id.clone(),
            step: self.number("step", run.step)?,
            length: self.number("length", conversation.length)?,
            name: self.text("name")?,
            state: self.value("state")?,
            saved_at: self.time("saved_at")?,
        })
    }

    fn forked_from(&self) -> Result<Option<(String, u64)>, String> {
        match self.value("forked_from")? {
            Json::Null => Ok(None),
            json @ Json::Object(_) => {
                let from = Part { json, path: self.path_of("forked_from") };
                Ok(Some((from.text("conversation")?, from.number("length", u64::MAX)?)))
            }
            _ => Err(self.wrong("forked_from", "an object or null")),
        }
    }

    fn value(&self, key: &str) -> Result<Json, String> {
        self.json.get(key).ok_or_else(|| self.wrong(key, "there"))
    }

    fn text(&self, key: &str) -> Result<String, String> {
        self.json.text(key).map(String::from).ok_or_else(|| self.wrong(key, "a string"))
    }

    fn object(&self, key: &str) -> Result<Json, String> {
        let object = self.json.get(key).filter(|value| value.as_object().is_some());
        object.ok_or_else(|| self.wrong(key, "an object"))
    }

    fn list(&self, key: &str) -> Result<Vec<Json>, String> {
        let list = self.json.get(key).filter(|value| value.as_array().is_some());
        list.map(|list| list.items()).ok_or_else(|| self.wrong(key, "a list"))
    }

    fn time(&self, key: &str) -> Result<i64, String> {
        let time = self.json.get(key).and_then(|time| time.as_i64());
        time.ok_or_else(|| self.wrong(key, "a whole number of milliseconds"))
    }

    fn number(&self, key: &str, most: u64) -> Result<u64, String> {
        let number = self.json.get(key).and_then(|number| u64::try_from(number.as_i64()?).ok());
        number.filter(|number| *number <= most).ok_or_else(|| match most {
            u64::MAX => self.wrong(key, "a whole number from 0"),
            most => self.wrong(key, &format!("a whole number from 0 to {most}")),
        })
    }

    /// Returns the objects of a list.
    fn parts(&self, key: &str) -> Result<Vec<Self>, String> {
        let list = self.list(key)?.into_iter().enumerate();
        let parts = list.map(|(index, json)| {
            let path = format!("{}[{index}]", self.path_of(key));
            if json.as_object().is_some() {
                Ok(Self { json, path })
            } else {
                Err(format!("`{path}` must be an object"))
            }
        });
        parts.collect()
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn wrong(&self, key: &str, right: &str) -> String {
        let found = self.json.get(key).map_or("is missing".to_owned(), |value| match value {
            Json::Array(_) | Json::Object(_) => format!("is of type {}", value.kind()),
            value => format!("is {value}"),
        });
        format!("`{}` must be {right}, but {found}", self.path_of(key))
    }
}

fn statuses() -> String {
    format!("one of {}", RunStatus::ALL.map(RunStatus::name).join(", "))
}
