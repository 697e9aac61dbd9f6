//! The contract of filters, tools, agents and contexts: `rows.txt` names the test of each row.

use crate::cli::Project;
use crate::host::{TestHost, streaming};
use crate::upstream::MODEL;
use std::path::Path;

const ROWS: &str = include_str!("rows.txt");

#[test]
fn every_row_of_the_contract_has_a_test() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let rows = ROWS.lines().filter(|row| !row.is_empty() && !row.starts_with("# "));
    let mut count = 0;
    for row in rows {
        let (_, path) = row.rsplit_once(" | ").unwrap();
        let (module, test) = path.rsplit_once("::").unwrap();
        let file = tests.join(module.replace("::", "/"));
        let text = std::fs::read_to_string(file.with_extension("rs"));
        let text = text.or_else(|_| std::fs::read_to_string(file.join("mod.rs"))).unwrap();
        let text = text.replace("\nasync fn ", "\nfn ");
        let declared = text.find(&format!("\nfn {test}()")).unwrap_or_else(|| panic!("no test: {row}"));
        let attribute = text[..declared].lines().last().unwrap();
        assert!(attribute.contains("test"), "no test: {row}");
        count += 1;
    }
    assert_eq!(count, 101);
}

#[test]
fn the_built_in_tools_have_their_documented_names() {
    const NAMES: [&str; 9] = [
        "file_read",
        "file_write",
        "file_list",
        "file_glob",
        "shell_exec",
        "todo_add",
        "todo_list",
        "todo_update",
        "human_input",
    ];
    let grants = NAMES.iter().filter_map(|name| match name.split('_').next()? {
        "file" => Some(format!("[grants.{name}]\nfiles = [\".\"]\n")),
        "shell" => Some(format!("[grants.{name}]\nshell = [\"echo\"]\n")),
        _ => None,
    });
    let project = Project::new().with("valvehouse.toml", &grants.collect::<String>());
    let list = project.run("list").ends(0).out;
    for name in NAMES {
        assert!(list.lines().any(|line| line.starts_with(name)), "{name} in {list}");
    }
    project.run_with(&["invoke", "file_write", "path=note.txt", "text=tea"], "").ends(0);
    project.run_with(&["invoke", "file_read", "path=note.txt"], "").ends(0).prints("tea");
    project.run_with(&["invoke", "todo_add", "content=tea", "--chat", "c1"], "").ends(0).prints("tea");
}

#[tokio::test]
async fn global_and_listed_filters_run_by_priority() {
    let named = |name: &str, keys: &str, priority: i32| {
        format!(
            "/*\ntitle: {name}\n{keys}*/\nconst Valves = #{{ priority: {priority} }};\n\
             fn inlet(body) {{ body.messages[-1].content += \" {name}\"; }}"
        )
    };
    let host = TestHost::new()
        .filter("last", named("last", "", 9))
        .filter("listed", named("listed", "global: false\n", 5))
        .filter("other", named("other", "global: false\n", 1))
        .filter("first", named("first", "", -1))
        .config(&format!(
            "[[models]]\nname = \"careful\"\nprovider = \"mock\"\nmodel = \"{MODEL}\"\nfilters = [\"listed\"]\n"
        ))
        .start()
        .await;
    assert_eq!(host.chat(&streaming("careful", "hi")).await.status, 200);
    assert_eq!(host.upstream.last().last_text(), "hi first listed last");
    assert_eq!(host.chat(&streaming(MODEL, "hi")).await.status, 200);
    assert_eq!(host.upstream.last().last_text(), "hi first last");
}

#[tokio::test]
async fn the_example_of_a_filter_reads_the_data_of_an_event() {
    let example = r#"
        const Valves = #{ max_turns: 4 };
        const UserValves = #{ bonus_turns: 0 };
        const file_handler = true;

        fn inlet(body, __user__, valves) {
            let limit = valves.max_turns + __user__.valves.bonus_turns;
            if body.get("messages", []).len() > limit {
                throw `Conversation turn limit exceeded (${limit})`;
            }
            body
        }

        fn stream(event) {
            print(`token ${event.get("data")}`);
            event.text = event.get("data").to_upper();
            event
        }
    "#;
    let host = TestHost::new().filter("example", example).start().await;
    let answer = host.chat(&streaming(MODEL, "hi")).await;
    assert_eq!(answer.text(), "HELLO FROM UPSTREAM");
}
