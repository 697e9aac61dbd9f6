//! The resources that a plugin may reach beyond its turn.

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use valvehouse_config::Grant;
use valvehouse_core::context::Turn;
use valvehouse_core::error::{Error, Rejection};
use valvehouse_core::provider::{BUILTIN_EMBEDDING, builtin_embedding};
use valvehouse_core::tool::{Tool, ToolSpec};
use valvehouse_core::trace::Trace;
use valvehouse_json::Json;
use valvehouse_net::Web;
use valvehouse_os::{Folders, Programs, Variables};
use valvehouse_store::{self as store, Kv, VectorIndex};

/// The time that a script sees, in milliseconds since 1970.
#[derive(Debug, Clone, Default)]
pub(crate) enum Clock {
    /// That of the machine.
    #[default]
    Real,
    /// One that a test sets: it stands still between.
    Set(Arc<SetClock>),
}

/// A clock that stands still until it is set.
#[derive(Debug)]
pub(crate) struct SetClock {
    pub(crate) now: AtomicI64,
    /// The time when the running turn began.
    pub(crate) began: AtomicI64,
}

impl Clock {
    pub(crate) fn now_ms(&self) -> i64 {
        match self {
            Self::Real => store::now(),
            Self::Set(clock) => clock.now.load(Relaxed),
        }
    }

    /// Lets time pass at once where the clock stands still; returns `false` where one has to wait for it.
    pub(crate) fn pass(&self, ms: i64) -> bool {
        match self {
            Self::Real => false,
            Self::Set(clock) => {
                clock.now.fetch_add(ms, Relaxed);
                true
            }
        }
    }

    /// Milliseconds since a turn began.
    pub(crate) fn elapsed_ms(&self, turn: &Turn) -> i64 {
        match self {
            Self::Real => i64::try_from(turn.started().elapsed().as_millis()).unwrap_or(i64::MAX),
            Self::Set(clock) => clock.now.load(Relaxed) - clock.began.load(Relaxed),
        }
    }
}

/// Asks models of this host in the name of scripts.
pub trait Models: Send + Sync + std::fmt::Debug {
    /// One chat through the filters of its model, without those of the plugin that asks. The answer
    /// is `content tool_calls finish_reason usage model id`.
    fn chat(&self, plugin: String, request: Json, turn: Turn) -> BoxFuture<'static, Result<Json, Error>>;

    /// The same, read as it comes: the events of the stream.
    fn stream(&self, plugin: String, request: Json, turn: Turn) -> BoxStream<'static, Result<Json, Error>>;

    /// The vectors of texts, through the filters of the endpoint `embeddings` without the plugin that asks. By default
    /// those that need no model.
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

/// The bytes of texts whose vectors are computed at once.
const MAX_BYTES_AT_ONCE: usize = 16 << 10;

/// Texts whose vectors are asked for.
#[derive(Debug, Clone, Default)]
pub struct EmbedRequest {
    /// The texts.
    pub texts: Vec<String>,
    /// The model; by default the configured one, or the vectors that the host computes itself.
    pub model: Option<String>,
}

/// The vectors of texts.
#[derive(Debug, Clone, Default)]
pub struct Embeddings {
    /// The name of the model: vectors of different models cannot be compared.
    pub model: String,
    /// A vector for each text.
    pub vectors: Vec<Vec<f32>>,
}

impl Embeddings {
    /// Computes the vectors that need no model.
    pub fn builtin(texts: &[String]) -> Self {
        let vectors = texts.iter().map(|text| builtin_embedding(text)).collect();
        Self { model: BUILTIN_EMBEDDING.to_owned(), vectors }
    }

    /// The same, on a thread of its own where that takes long.
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
    /// The conversations of a user that changed before this time in milliseconds, the newest first.
    fn list(
        &self,
        user: String,
        before: Option<i64>,
        limit: u64,
    ) -> BoxFuture<'static, Result<Vec<ChatRecord>, Error>>;

    /// The messages of a range of a conversation; `None` if the user has none of this id.
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
    /// The model that it is held with.
    pub model: String,
    /// The number of messages.
    pub length: u64,
    /// The summary of its earlier part, if there is one.
    pub summary: Option<String>,
    /// In milliseconds since 1970.
    pub created_at: i64,
    /// In milliseconds since 1970.
    pub updated_at: i64,
}

/// The tools of this host.
pub trait HostTools: Send + Sync + std::fmt::Debug {
    /// Those that are meant, in order.
    fn tools(&self, is_meant: &dyn Fn(&ToolSpec) -> bool) -> Vec<Tool>;
}

/// Work of a script that is done when a client has its answer.
pub struct Work {
    /// The plugin's id.
    pub plugin: Arc<str>,
    /// `after` or `done`.
    pub what: &'static str,
    /// The bytes that it keeps until then, about.
    pub bytes: usize,
    /// The model, the user's id and the conversation of the turn that it comes from.
    pub origin: [String; 3],
    pub(crate) run: RunWork,
}

pub(crate) type RunWork =
    Box<dyn FnOnce(Option<Arc<Trace>>) -> BoxFuture<'static, Result<(), String>> + Send>;

impl Work {
    /// Does it. Its steps are recorded in the trace. Returns why it failed, where it did.
    pub fn run(self, trace: Option<Arc<Trace>>) -> BoxFuture<'static, Result<(), String>> {
        (self.run)(trace)
    }
}

/// Does the work that scripts leave for the time when a client has its answer.
pub trait Background: Send + Sync + std::fmt::Debug {
    /// Takes a piece of work to be done soon, beside other work, or drops it where there is too much.
    fn put(&self, work: Work);
}

/// Drops all work: nothing that a script does that is tried out stays.
#[derive(Debug)]
pub(crate) struct NoBackground;

impl Background for NoBackground {
    fn put(&self, _: Work) {}
}

/// The tools that one plugin may call.
#[derive(Debug, Clone, Default)]
pub(crate) enum Tools {
    /// None: it does not declare that it calls any.
    #[default]
    Undeclared,
    /// None: it is a dry run.
    DryRun,
    /// Those of its turn, and of the host's those that are granted.
    Granted {
        /// The grant for tools of the host.
        grant: Grant,
        /// The tools of the host.
        host: Option<Arc<dyn HostTools>>,
    },
}

/// The rules for a script that a model wrote: it sends no events and asks no questions.
#[derive(Debug, Default)]
pub(crate) struct OfModel {
    /// The refusal that ends the turn, although the script may have caught it.
    pub(crate) fatal: Mutex<Option<Rejection>>,
}

/// The resources of one plugin. Each refuses uses that were not granted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Resources {
    /// The clock that it sees.
    pub(crate) clock: Clock,
    /// Maps that last.
    pub(crate) kv: Option<Arc<Kv>>,
    /// Models of this host.
    pub(crate) models: Option<Arc<dyn Models>>,
    /// Stored vectors of its own.
    pub(crate) vectors: Option<VectorIndex>,
    /// The memories of the user, and what embeds them.
    pub(crate) memories: Option<(VectorIndex, Arc<dyn Models>)>,
    /// The conversations of the user.
    pub(crate) chats: Option<Arc<dyn Chats>>,
    /// Tools of this host.
    pub(crate) tools: Tools,
    /// Other hosts.
    pub(crate) web: Web,
    /// The files in granted folders.
    pub(crate) folders: Folders,
    /// Other programs.
    pub(crate) programs: Programs,
    /// Environment variables.
    pub(crate) variables: Variables,
    /// Set where a model wrote the script.
    pub(crate) of_model: Option<Arc<OfModel>>,
}
