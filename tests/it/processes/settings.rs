//! Changes of `valvehouse.toml` while a host runs.

use super::serve::{Project, Server};
use crate::host::until;
use crate::upstream::Upstream;

/// Refuses messages that contain its word; without a word it refuses nothing.
const GUARD: &str = "/*\nsecurity: true\n*/\nconst Valves = #{ word: \"\" };\n\
    fn inlet(body, valves) {\n    let text = body.messages[-1].text;\n    \
    if valves.word != \"\" && text.contains(valves.word) { throw `no ${valves.word}`; }\n}";

const SETTINGS: &str = "[filters.guard.valves]\nword = \"secret\"\n";

async fn guarded() -> (Upstream, Project, Server) {
    let upstream = Upstream::start().await;
    let project = Project::new(&upstream.url());
    project.filter("guard", GUARD);
    project.configure(SETTINGS);
    let server = project.serve().await;
    assert_eq!(server.tries("a", "a secret").await.0, 400);
    (upstream, project, server)
}

#[tokio::test]
async fn a_saved_settings_file_applies_without_a_restart() {
    let (_upstream, project, server) = guarded().await;
    assert_eq!(server.tries("b", "a riddle").await.0, 200);
    let settings = std::fs::read_to_string(project.folder().join("valvehouse.toml")).unwrap();
    let settings = settings.replace("word = \"secret\"", "word = \"riddle\"");
    let more = "[[models]]\nname = \"second\"\nprovider = \"mock\"\n[server]\nrequests_per_minute = 2\n";
    // Saved as editors do: a new file is renamed to the old name.
    std::fs::write(project.folder().join("valvehouse.toml~"), settings + more).unwrap();
    std::fs::rename(project.folder().join("valvehouse.toml~"), project.folder().join("valvehouse.toml"))
        .unwrap();
    until("the model is there", || async { server.models().await.contains(&"second".to_owned()) }).await;
    server.logs("the settings are reloaded", 1).await;
    assert_eq!(server.tries("c", "a riddle").await.0, 400);
    assert_eq!(server.tries("d", "a secret").await.0, 200);
    let (status, answer) = server.tries("e", "more").await;
    assert_eq!(status, 429, "{answer}");
    assert!(answer.to_string().contains("requests_per_minute"), "{answer}");
}

#[tokio::test]
async fn a_broken_save_of_the_settings_never_weakens_a_guard() {
    let (_upstream, project, server) = guarded().await;
    let file = project.folder().join("valvehouse.toml");
    let good = std::fs::read_to_string(&file).unwrap();
    let half = &good[..good.find("word =").unwrap() + 7];
    let unknown = good.replace("[filters.guard.valves]", "[filter.guard.valves]");
    let broken = [
        (half, "valvehouse.toml:"),
        (unknown.as_str(), "unknown setting filter"),
        ("", "is empty"),
        (" \n", "is empty"),
    ];
    for (text, message) in broken {
        std::fs::write(&file, text).unwrap();
        server.logs(message, 1).await;
        until("the problem is shown", || async { server.problems().await.contains("V222") }).await;
        assert_eq!(server.tries("a", "a secret").await.0, 400, "after {text:?}");
        assert!(server.models().await.contains(&"assistant".to_owned()), "after {text:?}");
    }
    std::fs::remove_file(&file).unwrap();
    server.logs("is missing", 1).await;
    assert_eq!(server.tries("a", "a secret").await.0, 400);

    // An operator may intend to continue without the file.
    server.signal("HUP");
    until("the settings are the usual ones", || async {
        !server.models().await.contains(&"assistant".to_owned())
    })
    .await;
    std::fs::write(&file, good).unwrap();
    until("the file is in force", || async { server.models().await.contains(&"assistant".to_owned()) }).await;
    assert_eq!(server.tries("a", "a secret").await.0, 400);
    assert!(!server.problems().await.contains("V222"));
}

#[tokio::test]
async fn settings_that_need_a_restart_are_named_and_the_others_apply() {
    let (_upstream, project, server) = guarded().await;
    project.configure(
        "[server]\nmax_body_mb = 64\nkeep_alive_ms = 5\n[[models]]\nname = \"second\"\nprovider = \"mock\"\n",
    );
    server.logs("restart to apply: server.max_body_mb, server.keep_alive_ms", 1).await;
    assert!(server.models().await.contains(&"second".to_owned()));
    let problems = server.problems().await;
    assert!(problems.contains("V223") && problems.contains("server.max_body_mb"), "{problems}");
}

#[tokio::test]
async fn a_save_prints_warnings_of_the_script() {
    let (_upstream, project, server) = guarded().await;
    project.filter("odd", "fn outlet(body) { body.messages[-1].text += `\\n signed`; }");
    server.logs("odd loaded", 1).await;
    server.logs("odd.rhai:1:", 1).await;
    server.logs("warning[", 1).await;
}
