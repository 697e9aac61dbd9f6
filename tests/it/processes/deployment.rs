//! The files in `deploy` fit each other and this program.

use super::serve::Project;
use crate::host::{TIMEOUT, client};
use crate::upstream::Upstream;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use valvehouse_testkit::postgres::Postgres;

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy")
}

fn text(file: &str) -> String {
    std::fs::read_to_string(deploy().join(file)).unwrap()
}

/// Reads the documents of these files; `None` without Python and PyYAML.
fn yaml(files: &[&str]) -> Option<Vec<Value>> {
    let read = "import json, sys, yaml\n\
                print(json.dumps([d for f in sys.argv[1:] for d in yaml.safe_load_all(open(f))]))";
    let named = std::env::var_os("VALVEHOUSE_PYTHON").map(PathBuf::from);
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python/bin/python");
    let pythons = named.into_iter().chain([own, "python3".into()]);
    let has_yaml = |python: &PathBuf| {
        let tried = Command::new(python).args(["-c", "import yaml"]).output();
        tried.is_ok_and(|tried| tried.status.success())
    };
    let Some(python) = pythons.into_iter().find(has_yaml) else {
        assert!(
            std::env::var_os("VALVEHOUSE_REQUIRE_PYTHON").is_none(),
            "no Python has PyYAML: run tests/run, which installs it"
        );
        eprintln!("skipped: no Python has PyYAML");
        return None;
    };
    let files = files.iter().map(|file| deploy().join(file));
    let output = Command::new(python).args(["-c", read]).args(files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn of_kind<'a>(documents: &'a [Value], kind: &str) -> Vec<&'a Value> {
    documents.iter().filter(|document| document["kind"] == kind).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}"))
}

fn words(value: &Value) -> Vec<String> {
    list(value).iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// Fails if this program does not know a command or one of its options.
fn check_command(words: &[String]) {
    let output = Command::new(env!("CARGO_BIN_EXE_valvehouse")).args(words).arg("--help").output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Fails if the configuration with this environment is invalid. Returns the port.
fn check_settings(toml: &str, environment: &BTreeMap<String, String>) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("valvehouse.toml"), toml).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_valvehouse"));
    let output = command.arg("config").current_dir(folder.path()).envs(environment).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}{}", String::from_utf8_lossy(&output.stderr));
    for line in toml.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        for name in line.split("\"env:").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(environment.contains_key(name), "{name} of valvehouse.toml is not in the environment");
        }
    }
    let listen = toml.lines().find_map(|line| line.strip_prefix("listen = \"0.0.0.0:")).unwrap();
    listen.trim_end_matches('"').to_owned()
}

#[test]
fn the_kubernetes_manifests_match_each_other_and_the_program() {
    let Some(kustomization) = yaml(&["kubernetes/kustomization.yaml"]) else { return };
    let files: Vec<String> =
        words(&kustomization[0]["resources"]).iter().map(|file| format!("kubernetes/{file}")).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let documents = yaml(&files).unwrap();
    let secrets = yaml(&["kubernetes/secrets.example.yaml"]).unwrap();
    let toml = of_kind(&documents, "ConfigMap")[0]["data"]["valvehouse.toml"].as_str().unwrap();
    assert_eq!(toml, text("compose/valvehouse.toml"), "both ways to deploy have the same settings");

    let mut pods = of_kind(&documents, "Deployment");
    pods.extend(of_kind(&documents, "Job"));
    assert_eq!(pods.len(), 2);
    for pod in pods.into_iter().map(|document| &document["spec"]["template"]["spec"]) {
        let volumes: BTreeSet<&str> =
            list(&pod["volumes"]).iter().map(|volume| volume["name"].as_str().unwrap()).collect();
        for container in list(&pod["containers"]) {
            check_command(&words(&container["args"]));
            let mut environment = BTreeMap::new();
            for source in list(&container["envFrom"]) {
                let name = &source["secretRef"]["name"];
                let secret = secrets.iter().find(|secret| secret["metadata"]["name"] == *name);
                let values = secret.unwrap_or_else(|| panic!("{name}"))["stringData"].as_object().unwrap();
                environment.extend(
                    values.iter().map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned())),
                );
            }
            let port = check_settings(toml, &environment);
            for mount in list(&container["volumeMounts"]) {
                assert!(volumes.contains(mount["name"].as_str().unwrap()), "{mount}");
                assert!(mount["subPath"].is_null() || mount["subPath"] == "valvehouse.toml", "{mount}");
            }
            if let Some(ports) = container["ports"].as_array() {
                assert_eq!(ports[0]["containerPort"].to_string(), port);
                for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
                    assert_eq!(container[probe]["httpGet"]["port"], ports[0]["name"], "{probe}");
                }
            }
        }
    }
    let label = &of_kind(&documents, "Deployment")[0]["spec"]["template"]["metadata"]["labels"];
    let services = of_kind(&documents, "Service");
    assert!(services.iter().all(|service| service["spec"]["selector"] == *label), "{services:?}");
    let sticky = services.iter().find(|service| service["spec"]["sessionAffinity"] == "ClientIP").unwrap();
    assert_eq!(sticky["spec"]["ports"], services[0]["spec"]["ports"], "it leads to the same port");
    assert_eq!(of_kind(&documents, "PodDisruptionBudget")[0]["spec"]["selector"]["matchLabels"], *label);
    assert_eq!(of_kind(&documents, "NetworkPolicy")[0]["spec"]["podSelector"]["matchLabels"], *label);
}

#[test]
fn the_compose_file_matches_its_files_and_the_program() {
    let Some(documents) = yaml(&["compose/compose.yaml"]) else { return };
    let services = documents[0]["services"].as_object().unwrap();
    let example = text("compose/.env.example");
    let given: BTreeSet<&str> =
        example.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    let mut hosts = BTreeSet::new();
    let mut port = String::new();
    for (name, service) in services {
        for volume in service["volumes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let (from, _) = volume.split_once(':').unwrap();
            assert!(!from.starts_with("./") || deploy().join("compose").join(from).is_file(), "{volume}");
        }
        for needed in service["depends_on"].as_array().into_iter().flatten() {
            assert!(services.contains_key(needed.as_str().unwrap()), "{needed}");
        }
        if !service["image"].as_str().unwrap().contains("valvehouse") {
            continue;
        }
        check_command(&words(&service["command"]));
        let environment = service["environment"].as_object().unwrap().iter();
        let environment: BTreeMap<String, String> = environment
            .map(|(key, value)| {
                let value = value.as_str().unwrap();
                let name = value.split("${").nth(1).and_then(|rest| rest.split([':', '}']).next()).unwrap();
                assert!(given.contains(name), "{name} is not in .env.example");
                (key.clone(), value.replace(&format!("${{{name}:?}}"), "value"))
            })
            .collect();
        port = check_settings(&text("compose/valvehouse.toml"), &environment);
        if let Some(health) = service["healthcheck"]["test"].as_array() {
            let health = words(&Value::Array(health.clone()));
            assert_eq!(health[..2], ["CMD", "/usr/local/bin/valvehouse"]);
            check_command(&health[2..]);
            hosts.insert(format!("{name}:{port}"));
        }
    }
    assert_eq!(hosts.len(), 3);
    let nginx = text("compose/nginx.conf");
    let upstreams: Vec<&str> = nginx.split("\n    upstream ").skip(1).collect();
    assert_eq!(upstreams.len(), 2, "one for all requests, one for those of a client to one host");
    for upstream in upstreams {
        let served: BTreeSet<String> = upstream
            .lines()
            .filter_map(|line| line.trim().strip_prefix("server "))
            .filter_map(|rest| Some(rest.split_once(' ')?.0.to_owned()))
            .filter(|server| server.contains(':'))
            .collect();
        assert_eq!(served, hosts, "the load balancer has all hosts");
    }
    assert!(
        nginx.contains(&format!("listen {port};"))
            && services["proxy"]["ports"][0] == format!("{port}:{port}")
    );
    let prometheus = yaml(&["compose/prometheus.yml"]).unwrap();
    let scraped = words(&prometheus[0]["scrape_configs"][0]["static_configs"][0]["targets"]);
    assert_eq!(scraped.into_iter().collect::<BTreeSet<_>>(), hosts, "Prometheus has all hosts");
}

#[test]
fn prometheus_accepts_the_deployed_settings() {
    let named = std::env::var_os("VALVEHOUSE_PROMTOOL").unwrap_or_else(|| "promtool".into());
    let folder = tempfile::tempdir().unwrap();
    // The check requires that the key file exists.
    let key = folder.path().join("admin_key");
    std::fs::write(&key, "key").unwrap();
    let settings =
        text("compose/prometheus.yml").replace("/run/secrets/admin_key", &key.display().to_string());
    let file = folder.path().join("prometheus.yml");
    std::fs::write(&file, settings).unwrap();
    match Command::new(&named).args(["check", "config"]).arg(&file).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            let is_required = std::env::var_os("VALVEHOUSE_REQUIRE_PROMTOOL").is_some();
            assert!(!is_required, "{named:?} does not start: {error}");
            println!("skipped: {named:?} does not start: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_the_deployed_settings_answers_probes_health_and_prometheus() {
    let Some(documents) = yaml(&["kubernetes/hosts.yaml", "compose/prometheus.yml"]) else { return };
    let Some(database) = Postgres::start() else { return };
    let upstream = Upstream::start().await;
    let project = Project::new(&upstream.url());
    std::fs::write(project.folder().join("valvehouse.toml"), text("compose/valvehouse.toml")).unwrap();
    let url = database.database();
    let environment: Vec<(&str, &Path)> = [
        ("VALVEHOUSE__STORE__URL", url.as_str()),
        ("VALVEHOUSE_CHAT_KEY", "a key for chats in this test"),
        ("VALVEHOUSE_ADMIN_KEY", "a key for operators in this test"),
        ("VALVEHOUSE_STORE_KEY", "a key for the store in this test"),
        ("OPENAI_API_KEY", "a key of the service"),
    ]
    .map(|(name, value)| (name, Path::new(value)))
    .into();
    let mut migrate = Command::new(env!("CARGO_BIN_EXE_valvehouse"));
    let migrated = migrate.arg("migrate").current_dir(project.folder()).envs(environment.iter().copied());
    let migrated = migrated.output().unwrap();
    assert!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
    let server = project.serve_with(&environment).await;
    let get = async |path: &str| {
        let request = client().get(format!("{}{path}", server.url())).timeout(TIMEOUT);
        let request = request.header("host", "10.1.2.3:9099");
        let key = path == "/metrics";
        let request = if key { request.bearer_auth("a key for operators in this test") } else { request };
        request.send().await.unwrap().status().as_u16()
    };
    let container = &documents[0]["spec"]["template"]["spec"]["containers"][0];
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let path = container[probe]["httpGet"]["path"].as_str().unwrap();
        assert_eq!(get(path).await, 200, "{path}");
    }
    let scraped = documents.last().unwrap()["scrape_configs"][0]["metrics_path"].as_str().unwrap();
    assert_eq!(get(scraped).await, 200, "{scraped}");
}
