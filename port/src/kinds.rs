//! The types of values, where they are known.

/// An HTTP client: the code of what it adds to each request, or empty texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Client {
    /// A map of headers.
    pub(crate) headers: String,
    /// A time in milliseconds.
    pub(crate) timeout: String,
    /// The beginning of each URL.
    pub(crate) base: String,
}

/// The type of a value, as precise as the translation needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Type {
    Unknown,
    None,
    Bool,
    Int,
    Float,
    Text,
    Bytes,
    List(Box<Type>),
    Map,
    /// The settings of the plugin or of a user.
    Valves,
    /// An HTTP response.
    Answer,
    /// An HTTP response whose body is streamed.
    Stream,
    Session(Box<Client>),
    /// A response of a model of the host, or a value on the path to its message.
    Model,
    ModelChoices,
    Match,
    Pattern,
    /// A point in time, in seconds since 1970, shown in UTC.
    Time,
    /// A point in time, in seconds since 1970, shown in a time zone: the code of its name.
    Local(Box<str>),
    /// A day; the code is a text such as `2026-11-28`.
    Day,
    /// A duration in seconds.
    Span,
    Closure,
    /// The function that emits events.
    Emitter,
    /// The function that asks the user a question.
    Caller,
    Logger,
    /// An instance of a class of the file; the number is the index of the class.
    Object(usize),
    /// A value that exists only in Python, such as a lock, a semaphore or an event loop.
    Nothing,
    Encoder,
    /// The tokens of a text; the code is the text.
    Tokens,
    /// An HTML page; the code is its HTML.
    Page,
    /// An element of an HTML page, as `html::select` returns it.
    Element,
    /// A hash that is not finished yet; the code is the function with its data.
    Digest,
    /// A caught error.
    Error,
    /// The response of a service that an error belongs to; the code is the error.
    ErrorResponse,
    /// A parsed URL.
    Address,
    Uuid,
}

impl Type {
    /// Returns the type of a variable that is assigned values of both types.
    pub(crate) fn join(self, other: Self) -> Self {
        match (self, other) {
            (a, b) if a == b => a,
            (Self::None, Self::Bool | Self::Int | Self::Float)
            | (Self::Bool | Self::Int | Self::Float, Self::None) => Self::Unknown,
            (Self::None, other) | (other, Self::None) => other,
            (Self::List(_), Self::List(_)) => Self::list(),
            (Self::Int, Self::Float) | (Self::Float, Self::Int) => Self::Float,
            _ => Self::Unknown,
        }
    }

    /// Returns `true` for points in time.
    pub(crate) fn is_time(&self) -> bool {
        matches!(self, Self::Time | Self::Local(_))
    }

    pub(crate) fn list() -> Self {
        Self::List(Box::new(Self::Unknown))
    }

    pub(crate) fn list_of(element: Self) -> Self {
        Self::List(Box::new(element))
    }

    /// Returns the type of the elements of a list.
    pub(crate) fn element(&self) -> Self {
        match self {
            Self::List(element) => (**element).clone(),
            Self::Text | Self::Stream => Self::Text,
            _ => Self::Unknown,
        }
    }

    /// Returns `true` if values of the type exist only in Python, so that the draft has no code for them.
    pub(crate) fn is_ghost(&self) -> bool {
        matches!(
            self,
            Self::Session(_) | Self::Logger | Self::Nothing | Self::Encoder | Self::Emitter | Self::Caller
        )
    }
}
