//! Database tables that a command creates, and a connection pooler in front of the database.

use super::serve::Project;
use crate::upstream::Upstream;
use serde_json::{Value, json};
use std::process::Command;
use valvehouse_testkit::postgres::{PgBouncer, Postgres};

#[tokio::test(flavor = "multi_thread")]
async fn a_host_behind_pgbouncer_waits_for_migrate_and_check_names_the_missing_setting() {
    let Some(database) = Postgres::start() else { return };
    let Some(bouncer) = PgBouncer::start(&database) else { return };
    let upstream = Upstream::start().await;
    let direct = database.database();
    let project = Project::new(&upstream.url());
    project.configure(&format!(
        "[store]\nurl = \"{}\"\nmigrate = \"wait\"\nkey = \"the same key on every host of this test\"\n",
        bouncer.url(&direct)
    ));
    project.filter("turns", "const Valves = #{ max: 8 };\nfn inlet(body) { body }\n");
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_valvehouse"));
        command.args(words).current_dir(project.folder()).env("VALVEHOUSE__STORE__MIGRATE_URL", &direct);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let (code, missing) = run(&["migrate", "--check"]);
    assert!(code == Some(1) && missing.contains("missing: state"), "{missing}");
    let (code, early) = run(&["nodes"]);
    assert!(code != Some(0) && early.contains("valvehouse migrate"), "{early}");
    // The host waits until the tables exist.
    let migrates = async {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        tokio::task::block_in_place(|| run(&["migrate", "--format", "json"]))
    };
    let (server, (code, taken)) = tokio::join!(project.serve(), migrates);
    assert_eq!(code, Some(0), "{taken}");
    let taken: Value = serde_json::from_str(&taken).unwrap();
    assert_eq!(taken["taken"][0], "state");
    assert_eq!(run(&["migrate", "--check"]).0, Some(0));

    let update = "/api/v1/functions/id/turns/valves/update";
    let (status, answer) = server.ask("POST", update, Some(&json!({"max": 9}))).await;
    assert_eq!(status, 200, "{answer}");
    assert!(server.problems().await.contains("V230"));
    let (code, found) = run(&["check", "--format", "json"]);
    assert_eq!(code, Some(0), "a warning: {found}");
    assert!(found.contains("V230") && found.contains("store.listen_url"), "{found}");
    project.configure(&format!("listen_url = \"{direct}\"\n"));
    let (_, found) = run(&["check", "--format", "json"]);
    assert!(!found.contains("V230"), "{found}");
}
