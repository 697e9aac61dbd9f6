//! Scripts that are uploaded, added by URL and deleted.

use super::{call, detail, post};
use crate::host::{Answer, TestHost};
use serde_json::{Value, json};

async fn upload(host: &TestHost, name: &str, text: &str) -> Answer {
    let body = format!(
        "--edge\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
         content-type: application/octet-stream\r\n\r\n{text}\r\n--edge--\r\n"
    );
    let request = host.request("POST", "/v1/pipelines/upload");
    Answer::of(request.header("content-type", "multipart/form-data; boundary=edge").body(body)).await
}

async fn ids(host: &TestHost) -> Vec<String> {
    let list: Value = host.get("/pipelines").await.json();
    list["data"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_uploaded_filter_is_live_at_the_response_and_can_be_deleted() {
    let host = TestHost::new().start().await;
    let done = upload(&host, "loud.rhai", "fn inlet(body) { throw `loud` }").await;
    assert_eq!(done.json(), json!({"status": true, "detail": "Pipeline uploaded successfully: loud"}));
    assert_eq!(ids(&host).await, ["loud"]);
    host.ask("hi").await.refused(400, "loud");

    // A second upload replaces the first.
    upload(&host, "loud.rhai", "fn inlet(body) { throw `louder` }").await;
    host.ask("hi").await.refused(400, "louder");

    let gone = call(&host, "DELETE", "/pipelines/delete", None, Some(&json!({"id": "loud"}))).await;
    assert_eq!(gone.json(), json!({"status": true, "detail": "Pipeline loud deleted successfully"}));
    assert!(ids(&host).await.is_empty());
    assert!(!host.path_of("loud").exists());
    let again = call(&host, "DELETE", "/pipelines/delete", None, Some(&json!({"id": "loud"}))).await;
    detail(&again, 404, "loud");
}

#[tokio::test]
async fn an_invalid_upload_changes_nothing() {
    let host = TestHost::new().filter("kept", "fn inlet(body) { body }").start().await;
    let before = std::fs::read(host.path_of("kept")).unwrap();
    detail(&upload(&host, "kept.rhai", "fn inlet(body) {").await, 422, "nothing was changed");
    assert_eq!(std::fs::read(host.path_of("kept")).unwrap(), before);
    detail(
        &upload(&host, "loud.py", "class Pipeline: pass").await,
        400,
        "Only Rhai scripts (.rhai) are allowed.",
    );
    for name in ["../../loud.rhai", "Loud.rhai", ".rhai"] {
        detail(&upload(&host, name, "fn inlet(body) { body }").await, 400, "invalid name of a plugin");
    }
    let no_form = host.request("POST", "/pipelines/upload").body("x");
    detail(&Answer::of(no_form).await, 400, "cannot read the upload");
    assert_eq!(ids(&host).await, ["kept"]);
}

#[tokio::test]
async fn a_guard_is_not_deleted_without_confirmation() {
    let host =
        TestHost::new().filter("guard", "/*\nsecurity: true\n*/\nfn inlet(body) { body }").start().await;
    let refused = call(&host, "DELETE", "/v1/pipelines/delete", None, Some(&json!({"id": "guard"}))).await;
    detail(&refused, 409, "guard");
    assert!(host.path_of("guard").exists());
}

#[tokio::test]
async fn a_script_url_is_fetched_only_from_public_addresses() {
    let host = TestHost::new().start().await;
    let add = async |url: &str| post(&host, "/pipelines/add", &json!({"url": url})).await;
    detail(&add("https://example.com/filter.py").await, 400, "Only Rhai scripts");
    let inside = format!("{}/loud.rhai", host.upstream.url());
    detail(&add(&inside).await, 400, "cannot download");
    detail(&add("file:///etc/loud.rhai").await, 400, "cannot download");
    detail(&post(&host, "/pipelines/add", &json!({})).await, 400, "url");
    assert!(host.upstream.requests().is_empty() && ids(&host).await.is_empty());
}
