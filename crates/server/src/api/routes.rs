//! The builder of routes: each is mounted and described by one call.

use super::answer::EventStream;
use super::describe::{Describe, DescribedHandler, Description};
use super::input::Body;
use crate::auth::{self, Needs};
use crate::handler::SharedHandler;
use crate::reply::ErrorForm;
use axum::extract::Request;
use axum::handler::Handler;
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use axum::{Extension, Router};
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde_json::{Value, json};
use std::sync::Arc;
use valvehouse_host::access::OperatorRole as Role;
use valvehouse_host::app::App;

type Text = &'static str;

/// The callers that may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Callers {
    Everyone,
    /// Callers that may use models.
    Chats,
    /// Operators, and users for their own data.
    Users,
    /// Everyone, while operators receive more.
    Visitors,
    /// Operators only: others are rejected before the handler.
    Operators,
}

impl Callers {
    /// Returns the security requirements of OpenAPI.
    pub(crate) fn security(self) -> Value {
        match self {
            Self::Everyone => json!([{}]),
            Self::Chats => json!([{"key": []}, {}]),
            Self::Users => json!([{"key": []}, {"operator": []}, {"session": []}, {}]),
            Self::Visitors | Self::Operators => json!([{"operator": []}, {"session": []}, {}]),
        }
    }
}

/// An operation of a route: its handler, and the parts of its description that the types do not contain.
pub(crate) struct Operation {
    handler: SharedHandler,
    filter: MethodFilter,
    pub(crate) method: &'static str,
    pub(crate) summary: &'static str,
    /// The functions that add to the description, the first of them derived from the handler.
    pub(crate) describe: Vec<fn(&mut Description<'_>)>,
    /// The name of the form field that contains a file.
    pub(crate) file: Option<&'static str>,
    /// The headers that the handler reads, with their descriptions.
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    /// The media types of responses other than JSON.
    pub(crate) media_types: &'static [&'static str],
    /// The error statuses in addition to those of every route.
    pub(crate) faults: Vec<u16>,
    /// The description of status 200.
    pub(crate) result: Option<&'static str>,
    pub(crate) callers: Option<Callers>,
    /// The role that operators need.
    pub(crate) needs: Needs,
}

/// A handler whose types describe it.
pub(crate) trait RouteHandler<T, M>:
    Handler<T, Arc<App>, Future = BoxFuture<'static, Response>> + DescribedHandler<M>
{
}

impl<H, T, M> RouteHandler<T, M> for H where
    H: Handler<T, Arc<App>, Future = BoxFuture<'static, Response>> + DescribedHandler<M>
{
}

/// Creates a `GET` operation.
pub(crate) fn get<T: 'static, M>(summary: &'static str, handler: impl RouteHandler<T, M>) -> Operation {
    Operation::new(("get", MethodFilter::GET), Role::Read, summary, handler)
}

/// Creates a `POST` operation. Operators need this role for it.
pub(crate) fn post<T: 'static, M>(role: Role, summary: Text, handler: impl RouteHandler<T, M>) -> Operation {
    Operation::new(("post", MethodFilter::POST), role, summary, handler)
}

/// Creates a `PUT` operation. Operators need this role for it.
pub(crate) fn put<T: 'static, M>(role: Role, summary: Text, handler: impl RouteHandler<T, M>) -> Operation {
    Operation::new(("put", MethodFilter::PUT), role, summary, handler)
}

/// Creates a `DELETE` operation. Operators need this role for it.
pub(crate) fn delete<T: 'static, M>(
    role: Role,
    summary: Text,
    handler: impl RouteHandler<T, M>,
) -> Operation {
    Operation::new(("delete", MethodFilter::DELETE), role, summary, handler)
}

impl Operation {
    fn new<H: RouteHandler<T, M>, T: 'static, M>(
        (method, filter): (&'static str, MethodFilter),
        role: Role,
        summary: &'static str,
        handler: H,
    ) -> Self {
        Self {
            handler: SharedHandler::of(handler),
            filter,
            method,
            summary,
            describe: vec![H::describe],
            file: None,
            headers: Vec::new(),
            media_types: &[],
            faults: Vec::new(),
            result: None,
            callers: None,
            needs: Needs { role, guards_need_admin: false },
        }
    }

    /// Sets the description of the result.
    pub(crate) fn result(self, text: &'static str) -> Self {
        Self { result: Some(text), ..self }
    }

    /// Adds status 409: the current state does not allow the operation.
    pub(crate) fn conflicts(self) -> Self {
        self.fails(409)
    }

    /// Adds status 422: the input is well formed but cannot be used.
    pub(crate) fn unusable(self) -> Self {
        self.fails(422)
    }

    /// Adds an error status.
    pub(crate) fn fails(mut self, status: u16) -> Self {
        self.faults.push(status);
        self
    }

    /// Adds the error statuses of turns: those of plugins and of providers.
    pub(crate) fn runs_turns(self) -> Self {
        self.describes(|description| {
            for (statuses, name) in [("4XX", "Refused"), ("5XX", "Upstream")] {
                let answer = json!({"$ref": format!("#/components/responses/{name}")});
                description.answers.insert(statuses.into(), answer);
            }
        })
    }

    /// Adds status 304: the client already has the file.
    pub(crate) fn not_modified(self) -> Self {
        self.describes(|description| {
            description.answers.insert("304".into(), json!({"description": "The file has not changed."}));
        })
    }

    /// Sets the media types of the response.
    pub(crate) fn media_types(self, media_types: &'static [&'static str]) -> Self {
        Self { media_types, ..self }
    }

    /// Describes the body as this type, which the handler checks itself.
    pub(crate) fn takes<T: JsonSchema + 'static>(self) -> Self {
        self.describes(Body::<T>::describe)
    }

    /// Describes the body as a form with a file in this field.
    pub(crate) fn takes_file(self, field: &'static str) -> Self {
        Self { file: Some(field), ..self }
    }

    /// Adds an optional request header.
    pub(crate) fn takes_header(mut self, name: &'static str, text: &'static str) -> Self {
        self.headers.push((name, text));
        self
    }

    /// Adds a response of server-sent events, for requests that ask for it.
    pub(crate) fn streams(self) -> Self {
        self.describes(EventStream::describe)
    }

    /// Describes the response as JSON of this type.
    pub(crate) fn returns<T: JsonSchema>(self) -> Self {
        self.describes(|description| description.json_answer::<T>())
    }

    /// Adds a function that adds to the description.
    pub(crate) fn describes(mut self, describe: fn(&mut Description<'_>)) -> Self {
        self.describe.push(describe);
        self
    }

    /// Requires the role `admin` for plugins that are guards.
    pub(crate) fn guards_need_admin(mut self) -> Self {
        self.needs.guards_need_admin = true;
        self
    }

    /// Sets the callers, if they differ from those of the other routes.
    pub(crate) fn callers(self, callers: Callers) -> Self {
        Self { callers: Some(callers), ..self }
    }
}

/// Returns a handler that rejects all callers but operators. The operator is an extension of its requests.
fn for_operators(handler: SharedHandler) -> SharedHandler {
    SharedHandler::new(move |request: Request, app| {
        let handler = handler.clone();
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            match auth::operator(&app, &parts) {
                Ok(operator) => {
                    parts.extensions.insert(operator);
                    handler.call(Request::from_parts(parts, body), app).await
                }
                Err(error) => ErrorForm::of(&parts).refuse(error),
            }
        })
    })
}

/// The routes of one tag, with their descriptions.
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
    /// Creates an empty builder.
    pub(crate) fn new(tag: &'static str, callers: Callers) -> Self {
        Self { tag, callers, form: ErrorForm::OpenAi, router: Router::new(), descriptions: Vec::new() }
    }

    /// Creates an empty builder of routes with errors in the format of Open WebUI's servers.
    pub(crate) fn with_details(tag: &'static str, callers: Callers) -> Self {
        Self { form: ErrorForm::Detail, ..Self::new(tag, callers) }
    }

    /// Adds an operation to a path. A path may have several operations.
    pub(crate) fn route(mut self, path: &str, operation: Operation) -> Self {
        let callers = operation.callers.unwrap_or(self.callers);
        let handler = match callers {
            Callers::Operators => for_operators(operation.handler.clone()),
            _ => operation.handler.clone(),
        };
        let methods = on(operation.filter, handler);
        let methods = match self.form {
            ErrorForm::OpenAi => methods,
            form => methods.layer(Extension(form)),
        };
        self.router = self.router.route(path, methods);
        self.descriptions.push(RouteDescription {
            // OpenAPI has no syntax for several path segments.
            path: path.replace("{*", "{"),
            tag: self.tag,
            callers,
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

    /// Changes the router, for example to add a layer.
    pub(crate) fn map(self, change: impl FnOnce(Router<Arc<App>>) -> Router<Arc<App>>) -> Self {
        Self { router: change(self.router), ..self }
    }

    /// Returns the router and the descriptions.
    pub(crate) fn into_parts(self) -> (Router<Arc<App>>, Vec<RouteDescription>) {
        (self.router, self.descriptions)
    }
}
