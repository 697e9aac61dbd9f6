//! The reactions of a running host to signals.

use super::serve::Project;
use crate::host::{TIMEOUT, until};
use crate::upstream::{Gate, Reply, Upstream, chunk};
use serde_json::json;
use std::os::unix::net::UnixDatagram;

#[tokio::test]
async fn after_sigterm_a_stream_finishes_and_new_requests_are_rejected() {
    let upstream = Upstream::start().await;
    let gate = Gate::closed();
    let rest = format!("{}data: [DONE]\n\n", chunk(&json!({"content": " end"}), Some("stop")));
    upstream.reply(Reply::begun(["begin"]).then_gate(&gate).then(rest));
    let project = Project::new(&upstream.url());
    let mut server = project.serve().await;

    let mut response = server.begins("hi").await;
    let mut seen = String::new();
    while !seen.contains("begin") {
        seen.push_str(std::str::from_utf8(&response.chunk().await.unwrap().expect("more")).unwrap());
    }
    server.signal("TERM");
    until("it says that it stops", || async { !server.is_ready().await }).await;
    let (status, refused) = server.tries("c", "hi").await;
    assert_eq!(status, 503, "{refused}");
    gate.open();
    seen.push_str(&response.text().await.unwrap());
    assert!(seen.contains(" end") && seen.ends_with("data: [DONE]\n\n"), "{seen}");
    assert!(server.ends().await.success());
}

#[tokio::test]
async fn sighup_reloads_the_settings_atomically() {
    let upstream = Upstream::start().await;
    let project = Project::new(&upstream.url());
    let filters = project.folder().join("filters");
    std::fs::create_dir_all(&filters).unwrap();
    let limit = "const Valves = #{ text: \"usual\" };\nfn inlet(body, valves) { throw valves.text }";
    std::fs::write(filters.join("limit.rhai"), limit).unwrap();
    let server = project.serve().await;
    let refused = async || server.tries("c", "hi").await.1["error"]["message"].as_str().unwrap().to_owned();
    assert_eq!(refused().await, "usual");

    project.configure(
        "[[models]]\nname = \"second\"\nprovider = \"mock\"\n[filters.limit.valves]\ntext = \"other\"\n",
    );
    server.signal("HUP");
    server.logs("the settings are reloaded", 1).await;
    assert!(server.models().await.contains(&"second".to_owned()));
    assert_eq!(refused().await, "other");

    // Changes that need a restart are reported, and everything else is unchanged.
    project.configure("[server]\nmax_body_mb = 64\n");
    server.signal("HUP");
    server.logs("restart to apply: server.max_body_mb", 1).await;
    assert_eq!(refused().await, "other");
}

#[tokio::test]
async fn invalid_settings_on_reload_change_nothing_and_are_reported() {
    let upstream = Upstream::start().await;
    let project = Project::new(&upstream.url());
    let server = project.serve().await;
    let before = server.models().await;
    project.configure("[[models]]\nname = \"second\"\nprovider = \"nobody\"\n");
    server.signal("HUP");
    server.logs("cannot apply the settings", 1).await;
    server.logs("models.second.provider", 1).await;
    assert_eq!(server.models().await, before);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn systemd_is_notified_of_the_state() {
    let upstream = Upstream::start().await;
    let project = Project::new(&upstream.url());
    let place = project.folder().join("notify");
    let socket = UnixDatagram::bind(&place).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let notification = async || {
        let socket = socket.try_clone().unwrap();
        let notification = tokio::task::spawn_blocking(move || {
            let mut bytes = [0; 512];
            let length = socket.recv(&mut bytes).expect("a word");
            String::from_utf8_lossy(&bytes[..length]).into_owned()
        });
        notification.await.unwrap()
    };
    let mut server = project.serve_with(&[("NOTIFY_SOCKET", &place)]).await;
    assert_eq!(notification().await.trim(), "READY=1");
    server.signal("HUP");
    let reloading = notification().await;
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(notification().await.trim(), "READY=1");
    server.signal("TERM");
    assert_eq!(notification().await.trim(), "STOPPING=1");
    assert!(server.ends().await.success());
}
