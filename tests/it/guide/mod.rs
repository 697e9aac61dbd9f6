//! Executes each page of the guide from its first to its last block in a separate folder with the real
//! binary, and compares the output with the page.

// The commands of the pages run in a shell.
#![cfg(unix)]

mod page;

use crate::cli::{Project, Server};
use page::{Does, Step, fits, line_fits, steps};
use std::path::{Path, PathBuf};

const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guide");

/// The address of the host on the pages; the tests use another one.
const ADDRESS: &str = "127.0.0.1:9099";

#[test]
fn the_guide_page_on_a_first_filter_works() {
    follow("first-filter");
}

#[test]
fn the_guide_page_on_valves_works() {
    follow("valves");
}

#[test]
fn the_guide_page_on_streams_works() {
    follow("streams");
}

#[test]
fn the_guide_page_on_tools_works() {
    follow("tools");
}

#[test]
fn the_guide_page_on_actions_works() {
    follow("actions");
}

#[test]
fn the_guide_page_on_storage_works() {
    follow("state");
}

#[test]
fn the_guide_page_on_records_of_users_works() {
    follow("records");
}

#[test]
fn the_guide_page_on_http_works() {
    follow("http");
}

#[test]
fn the_guide_page_on_bytes_works() {
    follow("bytes");
}

#[test]
fn the_guide_page_on_waiting_and_retries_works() {
    follow("waiting");
}

#[test]
fn the_guide_page_on_lists_and_ticks_works() {
    follow("schedule");
}

#[test]
fn the_guide_page_on_models_works() {
    follow("models");
}

#[test]
fn the_guide_page_on_tests_works() {
    follow("testing");
}

#[test]
fn the_guide_page_on_finding_errors_works() {
    follow("debugging");
}

#[test]
fn the_guide_page_on_moving_from_open_webui_works() {
    follow("from-open-webui");
}

#[test]
fn the_guide_page_on_sharing_scripts_works() {
    follow("sharing");
}

#[test]
fn the_first_five_minutes_of_the_readme_work() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let text = std::fs::read_to_string(path).unwrap();
    let begins = text.find("## Five minutes to a first filter").unwrap();
    let section = &text[begins..begins + text[begins..].find("\n## ").unwrap()];
    let mut reader = Reader::new();
    reader.host = Some(reader.project.serve(""));
    let mut asks = String::new();
    // The text before a block names its file.
    let mut parts = section.split("```");
    while let (Some(before), Some(block)) = (parts.next(), parts.next()) {
        let (language, block) = block.split_once('\n').unwrap();
        let block = block.replace("cargo run --", "valvehouse");
        match language {
            "rhai" => reader.saves(before.rsplit('`').nth(1).unwrap(), &block),
            "sh" => reader.types(&block, 0, None, path),
            _ => {}
        }
        if block.starts_with("curl") {
            asks = block;
        }
    }
    reader.types(&asks, 0, Some("…\\n\\n-- yours truly\"…"), path);
    assert!(reader.complaints.is_empty(), "{}", reader.complaints.join("\n"));
}

#[test]
fn every_guide_page_is_tested_and_every_link_is_valid() {
    let source =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/guide/mod.rs")).unwrap();
    let index = std::fs::read_to_string(Path::new(GUIDE).join("README.md")).unwrap();
    for page in pages() {
        let name = page.file_stem().unwrap().to_str().unwrap();
        if name == "README" {
            assert!(steps(&page).is_empty(), "the index has nothing to do in it");
        } else {
            // Its commands are those of `valvehouse-port`, whose own tests follow it.
            let is_followed = name == "porting" || source.contains(&format!("follow(\"{name}\")"));
            assert!(is_followed, "nobody follows {name}.md");
            assert!(index.contains(&format!("({name}.md)")), "the index does not name {name}.md");
        }
        let text = std::fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap();
            let leads = link.contains("://") || file.is_empty() || Path::new(GUIDE).join(file).exists();
            assert!(leads, "{}: {link} leads nowhere", page.display());
        }
    }
}

fn pages() -> Vec<PathBuf> {
    let files = std::fs::read_dir(GUIDE).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// Executes a page and reports every difference from what it shows.
fn follow(name: &str) {
    let path = Path::new(GUIDE).join(format!("{name}.md"));
    let mut reader = Reader::new();
    for step in steps(&path) {
        let place = format!("{}:{}", path.display(), step.line);
        reader.does(step, &place);
    }
    // At the end, the files in the folder are valid.
    reader.types("valvehouse check --strict", 0, None, &format!("{}: in the end", path.display()));
    let tests = "find . -name '*.test.rhai' | grep -q . || exit 0; valvehouse test";
    reader.types(tests, 0, None, &format!("{}: in the end", path.display()));
    assert!(reader.complaints.is_empty(), "{}", reader.complaints.join("\n"));
}

/// The state of a reader with two terminals.
struct Reader {
    project: Project,
    host: Option<Server>,
    /// The number of lines of the host's output that have been compared.
    seen: usize,
    complaints: Vec<String>,
}

impl Reader {
    fn new() -> Self {
        Self { project: Project::new(), host: None, seen: 0, complaints: Vec::new() }
    }

    fn does(&mut self, step: Step, place: &str) {
        match step.does {
            Does::Saves { path, text } => self.saves(&path, &text),
            Does::Adds { path, text } => {
                let before = std::fs::read_to_string(self.project.path(&path)).unwrap_or_default();
                self.saves(&path, &format!("{before}\n{text}"));
            }
            Does::Types { text, code, output } => self.types(&text, code, output.as_deref(), place),
            Does::Starts { text, output } => {
                // The previous host is stopped first, as a reader would do.
                self.host = None;
                self.seen = 0;
                let words = text.trim().trim_start_matches("valvehouse ");
                self.host = Some(match words.strip_prefix("dev") {
                    Some(words) => self.project.dev(words),
                    None => self.project.serve(words.trim_start_matches("serve")),
                });
                if let Some(output) = output {
                    self.sees(&output, place);
                }
            }
            Does::Sees { output } => self.sees(&output, place),
            Does::Calls { hook, text } => {
                let inside: String = text.lines().map(|line| format!("    {line}\n")).collect();
                let (hook, requirements) = hook.split_once(", with ").unwrap_or((&hook, ""));
                let script = format!("/*\nrequirements: {requirements}\n*/\nfn {hook} {{\n{inside}}}\n");
                self.project.write("filters/fragment.rhai", &script);
                self.types("valvehouse check --strict fragment && valvehouse chat hello", 0, None, place);
                std::fs::remove_file(self.project.path("filters/fragment.rhai")).unwrap();
            }
            Does::HasBefore { python } => self.compiles(&python, place),
        }
    }

    /// Saves a file. If a host watches the folder, waits until it reports the result.
    fn saves(&mut self, path: &str, text: &str) {
        self.project.write(path, text);
        let id = path.rsplit('/').next().unwrap().trim_end_matches(".rhai");
        let is_plugin =
            path.ends_with(".rhai") && !id.contains('.') && !id.starts_with('_') && !path.contains("lib/");
        if let Some(host) = self.host.as_ref().filter(|_| is_plugin) {
            host.wait_for_line(&format!("{id} "));
        }
    }

    fn types(&mut self, text: &str, code: i32, output: Option<&str>, place: &str) {
        let address = self.host.as_ref().map_or(ADDRESS, Server::address).to_owned();
        let here = format!("export VALVEHOUSE__SERVER__LISTEN={address}\n");
        let ran = self.project.types(&format!("{here}{}", text.replace(ADDRESS, &address)));
        let output_text = ran.out.replace(&address, ADDRESS);
        if ran.code != code {
            self.complaints
                .push(format!("{place}: ends with {}, and not {code}:\n{text}\n{output_text}", ran.code));
        } else if let Some(shown) = output.filter(|shown| !fits(shown, &output_text)) {
            self.complaints.push(format!("{place}: it shows\n{shown}\nbut one sees\n{output_text}"));
        }
    }

    /// Checks that the host prints these lines in this order; other lines may come between them.
    fn sees(&mut self, output: &str, place: &str) {
        let host = self.host.as_ref().unwrap_or_else(|| panic!("{place}: no host was started"));
        let shown = output.lines().map(str::trim_end).filter(|line| !line.is_empty() && *line != "…");
        for shown in shown {
            loop {
                let line = host.line(self.seen);
                self.seen += 1;
                if line_fits(shown, line.replace(host.address(), ADDRESS).trim_end()) {
                    break;
                }
            }
        }
    }

    /// Checks that the Python code of the page compiles.
    fn compiles(&mut self, python: &str, place: &str) {
        self.project.write("before.py", python);
        let compile = "command -v python3 > /dev/null || exit 0; python3 -m py_compile before.py";
        self.types(compile, 0, None, place);
    }
}
