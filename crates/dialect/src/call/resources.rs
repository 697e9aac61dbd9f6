//! The resources that a plugin may reach beyond its turn.

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use valvehouse_core::chat::{message, response};
use valvehouse_core::context::Turn;
use valvehouse_core::error::{Error, PluginError, Rejection};
use valvehouse_core::provider::{BUILTIN_EMBEDDING, builtin_embedding};
use valvehouse_core::tool::{Tool, ToolSpec};
use valvehouse_core::trace::{Counting, Trace};
use valvehouse_grants::{Capability, Grant};
use valvehouse_json::Json;
use valvehouse_net::Web;
use valvehouse_os::{Folders, Programs, Variables};
use valvehouse_store::{self as store, Kv, VectorIndex};

/// The clock that a script sees, in milliseconds since 1970.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The clock of the machine.
    #[default]
    Real,
    /// A clock that a test sets.
    Set(Arc<SetClock>),
}

/// A clock that does not advance until it is set.
#[derive(Debug)]
pub struct SetClock {
    /// The current time, in milliseconds since 1970.
    pub now: AtomicI64,
    /// The time when the running turn began.
    pub began: AtomicI64,
}

impl Clock {
    pub(crate) fn now_ms(&self) -> i64 {
        match self {
            Self::Real => store::now(),
            Self::Set(clock) => clock.now.load(Relaxed),
        }
    }

    /// Advances a clock that a test sets; returns `false` for the real clock, for which the caller has to wait.
    pub fn pass(&self, ms: i64) -> bool {
        match self {
            Self::Real => false,
            Self::Set(clock) => {
                clock.now.fetch_add(ms, Relaxed);
                true
            }
        }
    }

    /// Returns the milliseconds since a turn began.
    pub fn elapsed_ms(&self, turn: &Turn) -> i64 {
        match self {
            Self::Real => i64::try_from(turn.started().elapsed().as_millis()).unwrap_or(i64::MAX),
            Self::Set(clock) => clock.now.load(Relaxed) - clock.began.load(Relaxed),
        }
    }
}

/// A model call of a script.
#[derive(Debug, Clone)]
pub struct Question {
    /// The calling plugin, whose own filter does not run.
    pub plugin: String,
    /// The chat request.
    pub request: Json,
    /// The turn of the caller.
    pub turn: Turn,
    /// Set if the filters of the model run; guards always do.
    pub filters: bool,
}

impl Question {
    /// Returns what the script receives of a `chat.completion`.
    pub fn answer(completion: &Json) -> Json {
        let message = response::message_of(completion);
        Json::from([
            ("content", message::text_of(&message).as_str().into()),
            ("tool_calls", message.get("tool_calls").unwrap_or_else(Json::array)),
            ("finish_reason", completion.at_path("choices.0").field("finish_reason")),
            ("usage", completion.field("usage")),
            ("model", completion.field("model")),
            ("id", completion.field("id")),
        ])
    }
}

/// Calls models of this host for scripts.
pub trait Models: Send + Sync + std::fmt::Debug {
    /// Calls a model with the filters of that model, except those of the calling plugin. The answer has the keys
    /// `content`, `tool_calls`, `finish_reason`, `usage`, `model` and `id`.
    ///
    /// # Errors
    /// Returns an error if the request is invalid, a filter rejects it, or the model fails.
    fn chat(&self, question: Question) -> BoxFuture<'static, Result<Json, Error>>;

    /// Calls a model like [`Models::chat`] and returns the events of its stream.
    fn stream(&self, question: Question) -> BoxStream<'static, Result<Json, Error>>;

    /// Returns the vectors of texts, with the filters of the endpoint `embeddings` except those of the calling
    /// plugin. The default implementation uses the built-in embedding, which needs no model.
    ///
    /// # Errors
    /// Returns an error if the request is invalid, a filter rejects it, or the model fails.
    fn embed(
        &self,
        plugin: String,
        request: EmbedRequest,
        turn: Turn,
    ) -> BoxFuture<'static, Result<Embeddings, Error>> {
        let _ = (plugin, turn);
        Box::pin(async move {
            match request.model {
                None => Embeddings::computed(request.texts).await,
                Some(model) => Err(Error::invalid(
                    format!(
                        "cannot embed texts with the model `{model}` in a test or a dry run; leave `model` out"
                    ),
                    Some("model"),
                )),
            }
        })
    }
}

/// The maximum size of texts, in bytes, whose vectors are computed without a separate thread.
const MAX_BYTES_AT_ONCE: usize = 16 << 10;

/// A request for the vectors of texts.
#[derive(Debug, Clone, Default)]
pub struct EmbedRequest {
    /// The texts.
    pub texts: Vec<String>,
    /// The model; `None` uses the configured one or the built-in embedding.
    pub model: Option<String>,
}

/// The vectors of texts.
#[derive(Debug, Clone, Default)]
pub struct Embeddings {
    /// The name of the model. Vectors of different models cannot be compared.
    pub model: String,
    /// A vector for each text.
    pub vectors: Vec<Vec<f32>>,
}

impl Embeddings {
    /// Computes the vectors of the built-in embedding.
    pub fn builtin(texts: &[String]) -> Self {
        let vectors = texts.iter().map(|text| builtin_embedding(text)).collect();
        Self { model: BUILTIN_EMBEDDING.to_owned(), vectors }
    }

    /// Computes the vectors of the built-in embedding, on a separate thread for large texts.
    ///
    /// # Errors
    /// Returns an error if the thread was stopped.
    pub async fn computed(texts: Vec<String>) -> Result<Self, Error> {
        if texts.iter().map(String::len).sum::<usize>() <= MAX_BYTES_AT_ONCE {
            return Ok(Self::builtin(&texts));
        }
        let computed = tokio::task::spawn_blocking(move || Self::builtin(&texts)).await;
        computed.map_err(|error| Error::Host(format!("cannot embed texts: {error}")))
    }
}

/// Reads the stored conversations of a verified user.
pub trait Chats: Send + Sync + std::fmt::Debug {
    /// Returns the conversations of a user that changed before this time in milliseconds, the newest first.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn list(
        &self,
        user: String,
        before: Option<i64>,
        limit: u64,
    ) -> BoxFuture<'static, Result<Vec<ChatRecord>, Error>>;

    /// Returns the messages of a range of a conversation; `None` if the user has no conversation with this id.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn messages(
        &self,
        user: String,
        id: String,
        from: u64,
        to: u64,
    ) -> BoxFuture<'static, Result<Option<Vec<Json>>, Error>>;
}

/// A stored conversation without its messages.
#[derive(Debug, Clone, Default)]
pub struct ChatRecord {
    /// Its id.
    pub id: String,
    /// The model of the conversation.
    pub model: String,
    /// The number of messages.
    pub length: u64,
    /// The summary of its earlier part, if there is one.
    pub summary: Option<String>,
    /// The time of its creation, in milliseconds since 1970.
    pub created_at: i64,
    /// The time of its latest change, in milliseconds since 1970.
    pub updated_at: i64,
}

/// The tools of this host.
pub trait HostTools: Send + Sync + std::fmt::Debug {
    /// Returns the tools for which `is_meant` returns `true`, in order.
    fn tools(&self, is_meant: &dyn Fn(&ToolSpec) -> bool) -> Vec<Tool>;
}

/// A script's work that is done after the client has received its answer.
pub struct Work {
    /// The plugin's id.
    pub plugin: Arc<str>,
    /// The name of the function that scheduled it: `after` or `done`.
    pub what: &'static str,
    /// The approximate number of bytes that it holds until then.
    pub bytes: usize,
    /// The model, the user's id and the conversation of the turn that scheduled it.
    pub origin: [String; 3],
    /// The count of what it uses.
    pub counting: Counting,
    /// The work itself.
    pub run: RunWork,
}

/// The function that does a [`Work`], with the trace that records its steps.
pub type RunWork = Box<dyn FnOnce(Option<Arc<Trace>>) -> BoxFuture<'static, Result<(), PluginError>> + Send>;

impl Work {
    /// Does the work. The steps are recorded in the trace.
    ///
    /// # Errors
    /// Returns an error if the work failed or its time limit was reached.
    pub fn run(self, trace: Option<Arc<Trace>>) -> BoxFuture<'static, Result<(), PluginError>> {
        (self.run)(trace)
    }
}

/// The executor of work that scripts leave for after the answer.
pub trait Background: Send + Sync + std::fmt::Debug {
    /// Schedules a piece of work, concurrently with others; drops it if there are too many.
    fn put(&self, work: Work);
}

/// Drops all work: a dry run has no effects.
#[derive(Debug)]
pub struct NoBackground;

impl Background for NoBackground {
    fn put(&self, _: Work) {}
}

/// The tools that one plugin may call.
#[derive(Debug, Clone, Default)]
pub enum Tools {
    /// None, because it does not declare `tools`.
    #[default]
    Undeclared,
    /// None, because it is a dry run.
    DryRun,
    /// Those of its turn, and the granted ones of the host.
    Granted {
        /// The grant for tools of the host.
        grant: Grant,
        /// The tools of the host.
        host: Option<Arc<dyn HostTools>>,
    },
}

/// The rules for a script that a model wrote: it cannot send events or ask questions.
#[derive(Debug, Default)]
pub struct OfModel {
    /// The rejection that ends the turn, even if the script caught it.
    pub fatal: Mutex<Option<Rejection>>,
}

/// The resources of one plugin. Each of them rejects uses that are not granted.
#[derive(Debug, Clone, Default)]
pub struct Resources {
    /// The clock that it sees.
    pub clock: Clock,
    /// The key-value store.
    pub kv: Option<Arc<Kv>>,
    /// The models of this host.
    pub models: Option<Arc<dyn Models>>,
    /// Its stored vectors.
    pub vectors: Option<VectorIndex>,
    /// The memories of users, and the models that embed them.
    pub memories: Option<(VectorIndex, Arc<dyn Models>)>,
    /// The conversations of users.
    pub chats: Option<Arc<dyn Chats>>,
    /// The granted kinds of users' records, whether or not a host stores them.
    pub records: Vec<Capability>,
    /// The tools of this host.
    pub tools: Tools,
    /// Access to other hosts.
    pub web: Web,
    /// The granted folders.
    pub folders: Folders,
    /// The granted programs.
    pub programs: Programs,
    /// The granted environment variables.
    pub variables: Variables,
    /// The rules of a script that a model wrote; `None` for a plugin.
    pub of_model: Option<Arc<OfModel>>,
}
