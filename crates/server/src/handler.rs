//! Handlers behind one type.

use axum::extract::Request;
use axum::handler::Handler;
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter};
use futures::future::BoxFuture;
use std::sync::Arc;
use valvehouse_host::app::App;

/// A handler without its type. The services of the router are compiled once for it; for the type of each handler
/// they took half of the time that this package takes to compile.
#[derive(Clone)]
pub(crate) struct SharedHandler(Arc<dyn Fn(Request, Arc<App>) -> BoxFuture<'static, Response> + Send + Sync>);

impl SharedHandler {
    pub(crate) fn new(
        handler: impl Fn(Request, Arc<App>) -> BoxFuture<'static, Response> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(handler))
    }

    /// Returns a handler without its type.
    pub(crate) fn of<T>(handler: impl Handler<T, Arc<App>, Future = BoxFuture<'static, Response>>) -> Self {
        Self::new(move |request, app| handler.clone().call(request, app))
    }
}

impl Handler<(), Arc<App>> for SharedHandler {
    type Future = BoxFuture<'static, Response>;

    fn call(self, request: Request, app: Arc<App>) -> Self::Future {
        (self.0)(request, app)
    }
}

fn on<H, T>(methods: MethodFilter, handler: H) -> MethodRouter<Arc<App>>
where
    H: Handler<T, Arc<App>, Future = BoxFuture<'static, Response>>,
{
    axum::routing::on(methods, SharedHandler::of(handler))
}

/// Returns a route that answers `GET` with a handler.
pub(crate) fn get<H, T>(handler: H) -> MethodRouter<Arc<App>>
where
    H: Handler<T, Arc<App>, Future = BoxFuture<'static, Response>>,
{
    on(MethodFilter::GET, handler)
}

/// Returns a route that answers `POST` with a handler.
pub(crate) fn post<H, T>(handler: H) -> MethodRouter<Arc<App>>
where
    H: Handler<T, Arc<App>, Future = BoxFuture<'static, Response>>,
{
    on(MethodFilter::POST, handler)
}

/// Returns a route that answers `DELETE` with a handler.
pub(crate) fn delete<H, T>(handler: H) -> MethodRouter<Arc<App>>
where
    H: Handler<T, Arc<App>, Future = BoxFuture<'static, Response>>,
{
    on(MethodFilter::DELETE, handler)
}
