//! The subjects of hooks: for each hook a type with what its filters may read and change.

use super::hook::{FilterContext, Hook};
use crate::chat::{event, message};
use crate::context::{Context, Turn};
use valvehouse_json::Json;

mod sealed {
    pub trait OfThisPackage {}
}

/// The subject of a hook, which determines the hook of a closure: `|chat: &mut PreChat| …`.
pub trait Subject: sealed::OfThisPackage + Send + Sized + 'static {
    /// The hook that has this subject.
    const HOOK: Hook;

    /// Wraps the untyped value of the hook.
    #[doc(hidden)]
    fn from_context(ctx: FilterContext) -> Self;

    /// Returns the untyped value of the hook.
    #[doc(hidden)]
    fn into_context(self) -> FilterContext;
}

macro_rules! subjects {
    ($($(#[$doc:meta])* $name:ident of $hook:ident,)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name(FilterContext);

        impl sealed::OfThisPackage for $name {}

        impl Subject for $name {
            const HOOK: Hook = Hook::$hook;

            fn from_context(ctx: FilterContext) -> Self {
                Self(ctx)
            }

            fn into_context(self) -> FilterContext {
                self.0
            }
        }

        impl $name {
            /// Returns the context of the turn: its variables, history and trace.
            pub fn context(&self) -> &Context {
                self.0.context()
            }

            /// Returns the live metadata map of the turn, shared by all hooks.
            pub fn metadata(&self) -> &Json {
                self.0.metadata()
            }

            /// Returns the turn: its facts about the request, its events and the scratch maps of filters.
            pub fn turn(&self) -> &Turn {
                &self.0.turn
            }
        }
    )*};
}

subjects! {
    /// The request before the first model call of a turn.
    Inlet of Inlet,
    /// The messages of a model call before it is made.
    PreChat of PreChat,
    /// An event of a model's answer. An answer that is not streamed is one event.
    StreamEvent of Stream,
    /// The end of a model's answer.
    StreamEnd of StreamEnd,
    /// The result of a model call.
    PostChat of PostChat,
    /// A tool call before it is made.
    PreInvocation of PreInvocation,
    /// The result of a tool call.
    PostInvocation of PostInvocation,
    /// The conversation after the last model call of a turn, with the answer last.
    Outlet of Outlet,
}

/// The methods of subjects that are a body with messages.
macro_rules! body {
    ($($name:ident)*) => {$(
        impl $name {
            /// Returns the body, a live object in the form of the OpenAI chat API.
            pub fn body(&self) -> &Json {
                &self.0.value
            }

            /// Replaces the body.
            pub fn set_body(&mut self, body: impl Into<Json>) {
                self.0.value = body.into();
            }

            /// Returns the messages, a live list.
            pub fn messages(&self) -> Json {
                self.0.messages()
            }

            /// Replaces the messages.
            pub fn set_messages(&mut self, messages: impl Into<Json>) {
                self.0.set_messages(messages);
            }
        }
    )*};
}

body!(Inlet Outlet);

impl Inlet {
    /// Returns the name of the requested model.
    pub fn model(&self) -> String {
        self.0.value.text_or_empty("model").into()
    }

    /// Sets the model that answers.
    pub fn set_model(&mut self, model: &str) {
        self.0.value.edit("model", model);
    }

    /// Adds a paragraph at the end of the system message, and creates a missing one.
    pub fn append_system(&mut self, text: &str) {
        self.0.append_system(text);
    }
}

impl Outlet {
    /// Returns the text of the answer, the last message.
    pub fn text(&self) -> String {
        self.messages().at(-1).map_or_else(String::new, |answer| message::text_of(&answer).into())
    }

    /// Returns the token counts of the whole turn, `prompt_tokens completion_tokens total_tokens`; null if the
    /// service does not report them.
    pub fn usage(&self) -> Json {
        self.messages().at(-1).unwrap_or(Json::Null).field("usage")
    }

    /// Sets the text of the answer.
    pub fn set_text(&mut self, text: &str) {
        if let Some(answer) = self.messages().at(-1) {
            message::set_text(&answer, text);
        }
    }
}

impl PreChat {
    /// Returns the messages that will be sent, a live list.
    pub fn messages(&self) -> Json {
        self.0.messages()
    }

    /// Replaces the messages that will be sent.
    pub fn set_messages(&mut self, messages: impl Into<Json>) {
        self.0.set_messages(messages);
    }

    /// Returns the name of the model.
    pub fn model(&self) -> String {
        self.0.value.text_or_empty("model").into()
    }

    /// Adds a paragraph at the end of the system message, and creates a missing one.
    pub fn append_system(&mut self, text: &str) {
        self.0.append_system(text);
    }
}

impl StreamEvent {
    /// Returns the event, a live `chat.completion.chunk`.
    pub fn event(&self) -> &Json {
        &self.0.value
    }

    /// Returns the text of the event; "" if it has none.
    pub fn text(&self) -> String {
        event::text(&self.0.value).into()
    }

    /// Sets the text of the event.
    pub fn set_text(&mut self, text: &str) {
        event::set_text(&self.0.value, text);
    }

    /// Sends these events instead of this one. An event is an object, or the text of a new one.
    pub fn replace<E: Into<Json>>(&mut self, events: impl IntoIterator<Item = E>) {
        self.0.value = events.into_iter().map(Into::into).collect::<Vec<Json>>().into();
    }

    /// Drops the event.
    pub fn discard(&mut self) {
        self.0.value = Json::array();
    }
}

impl StreamEnd {
    /// Sends an event before the end. An event is an object, or the text of a new one.
    pub fn send(&mut self, event: impl Into<Json>) {
        let mut events = self.0.value.items();
        events.push(event.into());
        self.0.value = events.into();
    }
}

impl PostChat {
    /// Returns the messages that were sent, a live list.
    pub fn messages(&self) -> Json {
        self.0.messages()
    }

    /// Returns the result of the call, a live object: `content tool_calls finish_reason usage model id`.
    pub fn result(&self) -> Json {
        self.0.result()
    }

    /// Replaces the result of the call.
    pub fn set_result(&mut self, result: impl Into<Json>) {
        self.0.set_result(result);
    }

    /// Returns the text of the answer.
    pub fn text(&self) -> String {
        message::text_of(&self.result()).into()
    }

    /// Returns the token counts of the call, `prompt_tokens completion_tokens total_tokens`; null if the service
    /// does not report them.
    pub fn usage(&self) -> Json {
        self.result().field("usage")
    }

    /// Returns the reason why the answer ended, such as `stop`.
    pub fn finish_reason(&self) -> Option<String> {
        self.result().text("finish_reason").map(String::from)
    }

    /// Sets the text of the answer.
    pub fn set_text(&mut self, text: &str) {
        message::set_text(&self.result(), text);
    }
}

/// The methods of subjects that belong to a tool call.
macro_rules! invocation {
    ($($name:ident)*) => {$(
        impl $name {
            /// Returns the description of the tool, read-only: `name description parameters tags metadata`.
            pub fn tool(&self) -> Json {
                self.0.tool()
            }

            /// Returns the name of the tool.
            pub fn tool_name(&self) -> String {
                self.0.tool().text_or_empty("name").into()
            }

            /// Returns the arguments of the call, a live object.
            pub fn args(&self) -> Json {
                self.0.args()
            }

            /// Returns the plugin whose script made the call; `None` for a call of the model.
            pub fn caller(&self) -> Option<&str> {
                self.0.turn.caller()
            }
        }
    )*};
}

invocation!(PreInvocation PostInvocation);

impl PreInvocation {
    /// Replaces the arguments.
    pub fn set_args(&mut self, args: impl Into<Json>) {
        self.0.set_args(args);
    }
}

impl PostInvocation {
    /// Returns the result of the tool.
    pub fn result(&self) -> Json {
        self.0.result()
    }

    /// Replaces the result of the tool.
    pub fn set_result(&mut self, result: impl Into<Json>) {
        self.0.set_result(result);
    }

    /// Returns the error of a failed call, for filters that handle failures.
    pub fn error(&self) -> Option<String> {
        self.0.error().as_str().map(str::to_owned)
    }
}
