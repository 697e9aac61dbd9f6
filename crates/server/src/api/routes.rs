//! The builder of routes: each is mounted and described by one call.

use super::answer::EventStream;
use super::describe::{Describe, DescribedHandler, Description};
use super::input::Body;
use crate::reply::ErrorForm;
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Extension, Router};
use schemars::JsonSchema;
use serde_json::{Value, json};
use std::sync::Arc;
use valvehouse_host::app::App;

/// The callers that may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Callers {
    Everyone,
    /// Those who may chat.
    Chats,
    /// Operators, and users for what is their own.
    Users,
    Operators,
}

impl Callers {
    /// Returns the security requirements of OpenAPI.
    pub(crate) fn security(self) -> Value {
        match self {
            Self::Everyone => json!([{}]),
            Self::Chats => json!([{"key": []}, {}]),
            Self::Users => json!([{"key": []}, {"operator": []}, {"session": []}, {}]),
            Self::Operators => json!([{"operator": []}, {"session": []}, {}]),
        }
    }
}

/// A method of a route: its handler, and what the types of the handler do not tell.
pub(crate) struct Operation {
    methods: MethodRouter<Arc<App>>,
    pub(crate) method: &'static str,
    pub(crate) summary: &'static str,
    /// The handler's own description, and further ones.
    pub(crate) describe: Vec<fn(&mut Description<'_>)>,
    /// The field of a form that has a file.
    pub(crate) file: Option<&'static str>,
    /// The headers that it reads, with their descriptions.
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    /// The media types of answers that are not JSON.
    pub(crate) media_types: &'static [&'static str],
    /// The statuses of errors beyond those of every route.
    pub(crate) faults: Vec<u16>,
    /// The description of status 200.
    pub(crate) result: Option<&'static str>,
    pub(crate) callers: Option<Callers>,
}

/// A route of `GET`.
pub(crate) fn get<H, T, M>(summary: &'static str, handler: H) -> Operation
where
    H: Handler<T, Arc<App>> + DescribedHandler<M>,
    T: 'static,
{
    Operation::new::<H, T, M>("get", MethodFilter::GET, summary, handler)
}

/// A route of `POST`.
pub(crate) fn post<H, T, M>(summary: &'static str, handler: H) -> Operation
where
    H: Handler<T, Arc<App>> + DescribedHandler<M>,
    T: 'static,
{
    Operation::new::<H, T, M>("post", MethodFilter::POST, summary, handler)
}

/// A route of `PUT`.
pub(crate) fn put<H, T, M>(summary: &'static str, handler: H) -> Operation
where
    H: Handler<T, Arc<App>> + DescribedHandler<M>,
    T: 'static,
{
    Operation::new::<H, T, M>("put", MethodFilter::PUT, summary, handler)
}

/// A route of `DELETE`.
pub(crate) fn delete<H, T, M>(summary: &'static str, handler: H) -> Operation
where
    H: Handler<T, Arc<App>> + DescribedHandler<M>,
    T: 'static,
{
    Operation::new::<H, T, M>("delete", MethodFilter::DELETE, summary, handler)
}

impl Operation {
    fn new<H, T, M>(method: &'static str, filter: MethodFilter, summary: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<App>> + DescribedHandler<M>,
        T: 'static,
    {
        Self {
            methods: on(filter, handler),
            method,
            summary,
            describe: vec![H::describe],
            file: None,
            headers: Vec::new(),
            media_types: &[],
            faults: Vec::new(),
            result: None,
            callers: None,
        }
    }

    /// Describes the result.
    pub(crate) fn result(self, text: &'static str) -> Self {
        Self { result: Some(text), ..self }
    }

    /// Adds 409: the state of something does not allow it.
    pub(crate) fn conflicts(self) -> Self {
        self.fails(409)
    }

    /// Adds 422: it is well formed and cannot be used.
    pub(crate) fn unusable(self) -> Self {
        self.fails(422)
    }

    /// Adds the status of an error.
    pub(crate) fn fails(mut self, status: u16) -> Self {
        self.faults.push(status);
        self
    }

    /// Adds the statuses of turns: those of plugins and of providers.
    pub(crate) fn runs_turns(self) -> Self {
        self.describes(|description| {
            for (statuses, name) in [("4XX", "Refused"), ("5XX", "Upstream")] {
                let answer = json!({"$ref": format!("#/components/responses/{name}")});
                description.answers.insert(statuses.into(), answer);
            }
        })
    }

    /// Adds 304: the client has the file already.
    pub(crate) fn not_modified(self) -> Self {
        self.describes(|description| {
            description.answers.insert("304".into(), json!({"description": "The file has not changed."}));
        })
    }

    /// Answers with these media types.
    pub(crate) fn media_types(self, media_types: &'static [&'static str]) -> Self {
        Self { media_types, ..self }
    }

    /// Reads a body of this type, which the handler checks itself.
    pub(crate) fn takes<T: JsonSchema + 'static>(self) -> Self {
        self.describes(Body::<T>::describe)
    }

    /// Reads a form with a file in a field of this name.
    pub(crate) fn takes_file(self, field: &'static str) -> Self {
        Self { file: Some(field), ..self }
    }

    /// Reads an optional header.
    pub(crate) fn takes_header(mut self, name: &'static str, text: &'static str) -> Self {
        self.headers.push((name, text));
        self
    }

    /// Answers with server-sent events if they are asked for.
    pub(crate) fn streams(self) -> Self {
        self.describes(EventStream::describe)
    }

    /// Answers with JSON of this type.
    pub(crate) fn returns<T: JsonSchema>(self) -> Self {
        self.describes(|description| description.json_answer::<T>())
    }

    /// Adds to the description.
    pub(crate) fn describes(mut self, describe: fn(&mut Description<'_>)) -> Self {
        self.describe.push(describe);
        self
    }

    /// Names the callers where they are not those of the other routes.
    pub(crate) fn callers(self, callers: Callers) -> Self {
        Self { callers: Some(callers), ..self }
    }
}

/// Routes of one tag, with their descriptions.
pub(crate) struct Routes {
    tag: &'static str,
    callers: Callers,
    form: ErrorForm,
    router: Router<Arc<App>>,
    descriptions: Vec<RouteDescription>,
}

/// The description of a route.
pub(crate) struct RouteDescription {
    pub(crate) path: String,
    pub(crate) tag: &'static str,
    pub(crate) callers: Callers,
    pub(crate) form: ErrorForm,
    pub(crate) operation: Operation,
}

impl Routes {
    /// Starts with no routes.
    pub(crate) fn new(tag: &'static str, callers: Callers) -> Self {
        Self { tag, callers, form: ErrorForm::OpenAi, router: Router::new(), descriptions: Vec::new() }
    }

    /// Starts with no routes; errors are told as Open WebUI's servers tell them.
    pub(crate) fn with_details(tag: &'static str, callers: Callers) -> Self {
        Self { form: ErrorForm::Detail, ..Self::new(tag, callers) }
    }

    /// Adds a method of a path. A path may have several.
    pub(crate) fn route(mut self, path: &str, mut operation: Operation) -> Self {
        let methods = std::mem::take(&mut operation.methods);
        let methods = match self.form {
            ErrorForm::OpenAi => methods,
            form => methods.layer(Extension(form)),
        };
        self.router = self.router.route(path, methods);
        self.descriptions.push(RouteDescription {
            // OpenAPI has no names for several steps.
            path: path.replace("{*", "{"),
            tag: self.tag,
            callers: operation.callers.unwrap_or(self.callers),
            form: self.form,
            operation,
        });
        self
    }

    /// Adds the routes of another builder.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        self.descriptions.extend(other.descriptions);
        self
    }

    /// Changes the router, such as by a layer.
    pub(crate) fn map(self, change: impl FnOnce(Router<Arc<App>>) -> Router<Arc<App>>) -> Self {
        Self { router: change(self.router), ..self }
    }

    /// Returns the router and the descriptions.
    pub(crate) fn into_parts(self) -> (Router<Arc<App>>, Vec<RouteDescription>) {
        (self.router, self.descriptions)
    }
}
