//! The route of the document.

use super::document::Document;
use crate::api::{AnyObject, Callers, RouteDescription, Routes, get};
use crate::auth::DeclaredRoles;
use axum::response::Response;
use axum::{Extension, Router};
use std::sync::Arc;
use valvehouse_host::app::App;

/// Returns the route, which is public because the document reveals nothing about this host. [`described`]
/// provides the document.
pub(crate) fn routes() -> Routes {
    Routes::new("Operation", Callers::Everyone).route(
        "/openapi.json",
        get("Returns this description.", show).returns::<AnyObject>().result("An OpenAPI document."),
    )
}

/// Mounts routes and describes them in the document.
pub(crate) fn described(routes: Routes) -> Router<Arc<App>> {
    let (router, descriptions) = routes.into_parts();
    let role = |route: &RouteDescription| {
        (format!("{} {}", route.operation.method.to_uppercase(), route.path), route.operation.needs)
    };
    let roles: DeclaredRoles = Arc::new(descriptions.iter().map(role).collect());
    // One layer: each boxes all routes once more.
    router.layer((Extension(Arc::new(Document::new(descriptions))), Extension(roles)))
}

/// Handles `GET /openapi.json`.
async fn show(Extension(document): Extension<Arc<Document>>) -> Response {
    document.response()
}
