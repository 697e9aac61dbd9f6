//! The types of values, as far as they are known.

/// The type of a value, as far as the translation depends on it.
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
    /// The settings of the plugin, or of a user.
    Valves,
    /// An answer of a service.
    Answer,
    /// An answer that is read piece by piece.
    Stream,
    /// A client of services, with the code of the headers that it always sends.
    Session(String),
    /// An answer of a model of the host; on the way to its message.
    Model,
    ModelChoices,
    Match,
    Pattern,
    /// Seconds since 1970.
    Time,
    /// A length of time, in seconds.
    Span,
    Closure,
    /// An emitter of events.
    Emitter,
    /// A function that asks the user.
    Caller,
    Logger,
    /// An instance of a class of the file, by its place.
    Object(usize),
    /// A value that exists in Python only: locks, semaphores, event loops.
    Nothing,
    Encoder,
    /// The tokens of a text: the code is the text.
    Tokens,
    /// A page of HTML: the code is its text.
    Page,
    /// A digest that is not read yet: the code is the function with its data.
    Digest,
    /// A caught error.
    Error,
    /// A URL in its parts.
    Address,
    Uuid,
}

impl Type {
    /// The type of a variable that has values of both types.
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

    pub(crate) fn list() -> Self {
        Self::List(Box::new(Self::Unknown))
    }

    pub(crate) fn list_of(element: Self) -> Self {
        Self::List(Box::new(element))
    }

    /// The type of the elements of a list.
    pub(crate) fn element(&self) -> Self {
        match self {
            Self::List(element) => (**element).clone(),
            Self::Text | Self::Stream => Self::Text,
            _ => Self::Unknown,
        }
    }

    /// Returns `true` if a value of the type exists in Python only, so that no code assigns it.
    pub(crate) fn is_ghost(&self) -> bool {
        matches!(
            self,
            Self::Session(_) | Self::Logger | Self::Nothing | Self::Encoder | Self::Emitter | Self::Caller
        )
    }
}
