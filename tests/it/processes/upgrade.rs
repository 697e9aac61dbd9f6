//! A program that is replaced while clients send requests: no connection is refused and no answer is torn.

use super::serve::{Project, Server};
use crate::host::{TIMEOUT, client, until};
use crate::upstream::{Gate, Reply, Upstream, chunk};
use serde_json::{Value, json};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;

const PROGRAM: &str = env!("CARGO_BIN_EXE_valvehouse");

/// Clients that send chats without a pause, with a connection for each chat and with one for all.
struct Traffic {
    stops: Arc<AtomicBool>,
    clients: [Client; 2],
}

struct Client {
    asking: JoinHandle<()>,
    /// The hosts of its answers.
    answers: Arc<Mutex<Vec<String>>>,
}

impl Traffic {
    fn start(server: &Server) -> Self {
        let stops: Arc<AtomicBool> = Arc::default();
        let fresh = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0);
        let fresh = fresh.tls_backend_preconfigured(tls()).build().unwrap();
        let clients = [client(), fresh].map(|client| {
            let answers: Arc<Mutex<Vec<String>>> = Arc::default();
            let (url, stops, seen) = (server.url().to_owned(), stops.clone(), answers.clone());
            let asking = tokio::spawn(async move {
                while !stops.load(Relaxed) {
                    let host = ask(&client, &url).await;
                    seen.lock().unwrap().push(host);
                }
            });
            Client { asking, answers }
        });
        Self { stops, clients }
    }

    /// Waits until each client had several answers of a host that passes the test.
    async fn are_answered_by(&self, test: impl Fn(&str) -> bool) {
        until("all clients are answered", || async {
            let is_answered = |client: &Client| {
                let answers = client.answers.lock().unwrap();
                // A client that failed reports it at the end.
                client.asking.is_finished() || answers.iter().filter(|host| test(host)).count() >= 3
            };
            self.clients.iter().all(is_answered)
        })
        .await;
    }

    async fn end(self) {
        self.stops.store(true, Relaxed);
        for client in self.clients {
            client.asking.await.unwrap();
        }
    }
}

fn tls() -> rustls::ClientConfig {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = rustls::ClientConfig::builder();
    builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
}

/// Sends a chat, which must be answered completely. Returns the id of the host.
async fn ask(client: &reqwest::Client, url: &str) -> String {
    let body = json!({"model": "assistant", "messages": [{"role": "user", "content": "hi"}]});
    let request = client.post(format!("{url}/v1/chat/completions")).timeout(TIMEOUT);
    let request = request.header("content-type", "application/json").body(body.to_string());
    let response = request.send().await.unwrap_or_else(|error| panic!("no answer: {error:?}"));
    let host =
        response.headers()["x-valvehouse-trace"].to_str().unwrap().split('-').next().unwrap().to_owned();
    assert_eq!(response.status(), 200);
    let answer: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "hello", "{answer}");
    host
}

/// Starts a service that answers `hello` or, to `long`, streams until the gate opens.
async fn service() -> (Upstream, Gate) {
    let (upstream, gate) = (Upstream::start().await, Gate::closed());
    let rest = format!("{}data: [DONE]\n\n", chunk(&json!({"content": " end"}), Some("stop")));
    let long = Reply::begun(["begin"]).then_gate(&gate).then(rest);
    upstream.script(move |request| match request.last_text() == "long" {
        true => long.clone(),
        false => Reply::text("hello"),
    });
    (upstream, gate)
}

/// Starts a stream. Returns it after its first word.
async fn long_stream(server: &Server) -> (reqwest::Response, String) {
    let (mut response, mut seen) = (server.begins("long").await, String::new());
    while !seen.contains("begin") {
        seen.push_str(std::str::from_utf8(&response.chunk().await.unwrap().expect("more")).unwrap());
    }
    (response, seen)
}

async fn ends_whole((response, mut seen): (reqwest::Response, String)) {
    seen.push_str(&response.text().await.unwrap());
    assert!(seen.contains(" end") && seen.ends_with("data: [DONE]\n\n"), "{seen}");
}

/// A group of processes, which are killed at the end of a test.
struct Group(u32);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = Command::new("kill")
            .args(["-KILL", "--", &format!("-{}", self.0)])
            .stderr(Stdio::null())
            .status();
    }
}

/// Starts a host from a path at which its program can be replaced.
async fn replaceable(project: &Project, env: &[(&str, &Path)]) -> (Server, Group, PathBuf) {
    let path = project.folder().join("program");
    std::os::unix::fs::symlink(PROGRAM, &path).unwrap();
    let mut command = Command::new(&path);
    command.process_group(0);
    let server = project.serve_by(command, env).await;
    let group = Group(server.pid());
    (server, group, path)
}

/// Replaces the program of a host by a shell script.
fn replace(path: &Path, script: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&new, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::rename(new, path).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_program_takes_over_without_refusing_or_tearing_a_request() {
    let (upstream, gate) = service().await;
    let project = Project::new(&upstream.url());
    let (mut server, _group, path) = replaceable(&project, &[]).await;
    let traffic = Traffic::start(&server);
    let old = ask(&client(), server.url()).await;
    let stream = long_stream(&server).await;
    replace(&path, &format!("touch replaced\nexec {PROGRAM} \"$@\""));
    server.signal("USR2");
    server.logs("handed over to process", 1).await;
    assert!(project.folder().join("replaced").exists(), "the program that is at the path now is started");
    traffic.are_answered_by(|host| host != old).await;
    // The stream did not hold up anybody.
    gate.open();
    ends_whole(stream).await;
    assert!(server.ends().await.success());
    let new = ask(&client(), server.url()).await;
    traffic.end().await;
    assert_ne!(new, old);
}

#[tokio::test]
async fn a_host_keeps_serving_if_its_new_program_does_not_start() {
    let (upstream, _) = service().await;
    let project = Project::new(&upstream.url());
    let (server, _group, path) = replaceable(&project, &[]).await;
    let old = ask(&client(), server.url()).await;
    replace(&path, "exit 3");
    server.signal("USR2");
    server
        .logs("cannot hand over: the new process ended with exit status: 3; this process keeps serving", 1)
        .await;
    assert_eq!(ask(&client(), server.url()).await, old);
    std::fs::remove_file(path).unwrap();
    server.signal("USR2");
    server.logs("cannot hand over: cannot start a process: No such file", 1).await;
    assert_eq!(ask(&client(), server.url()).await, old);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn systemd_is_notified_of_the_process_that_takes_over() {
    let (upstream, _) = service().await;
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
    let (mut server, _group, _) = replaceable(&project, &[("NOTIFY_SOCKET", &place)]).await;
    assert_eq!(notification().await.trim(), "READY=1");
    server.signal("USR2");
    let main = notification().await;
    let main = main.trim().strip_prefix("MAINPID=").unwrap_or_else(|| panic!("{main}")).to_owned();
    assert!(server.ends().await.success());
    Command::new("kill").args(["-TERM", &main]).status().unwrap();
    assert_eq!(notification().await.trim(), "STOPPING=1");
}

/// Returns a host that is started with descriptors from 3 on, as by systemd.
fn activated(listener: Option<OwnedFd>, exports: &str, redirections: &str) -> Command {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        &format!("export {exports}; exec \"$0\" \"$@\" {redirections} 0</dev/null"),
        PROGRAM,
    ]);
    command.stdin(listener.map_or_else(Stdio::null, Stdio::from));
    command
}

const EXPORTS: &str = "LISTEN_PID=$$ LISTEN_FDS=1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_wait_while_a_host_behind_the_socket_of_systemd_is_replaced() {
    let (upstream, gate) = service().await;
    let project = Project::new(&upstream.url());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let serve = async || {
        let passed = listener.try_clone().unwrap().into();
        project.serve_by(activated(Some(passed), EXPORTS, "3<&0"), &[]).await
    };
    let mut server = serve().await;
    assert_eq!(server.url(), format!("http://{}", listener.local_addr().unwrap()));
    let traffic = Traffic::start(&server);
    let old = ask(&client(), server.url()).await;
    let stream = long_stream(&server).await;
    server.signal("TERM");
    server.logs("stopping", 1).await;
    gate.open();
    ends_whole(stream).await;
    assert!(server.ends().await.success());
    let _server = serve().await;
    traffic.are_answered_by(|host| host != old).await;
    traffic.end().await;
}

#[tokio::test]
async fn a_socket_that_is_not_usable_is_reported_with_a_fix() {
    let project = Project::new("http://127.0.0.1:9/v1");
    let bound = || TcpListener::bind("127.0.0.1:0").unwrap();
    let runs = |fd: Option<OwnedFd>, exports: &str, redirections: &str| {
        let mut command = activated(fd, exports, redirections);
        let ran = command.args(["serve"]).current_dir(project.folder()).output().unwrap();
        (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
    };
    let listener = bound();
    let connected = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let help = "; set one ListenStream= with a TCP address in the .socket unit, and not Accept=";
    for (fd, exports, redirections, why) in [
        (None, EXPORTS, "3<&0", "fd 3 is not a socket"),
        (None, EXPORTS, "", "fd 3 is not a socket"),
        (Some(udp.into()), EXPORTS, "3<&0", "fd 3 is not a valid tcp socket"),
        (Some(connected.into()), EXPORTS, "3<&0", "it is not a listening socket"),
        (Some(bound().into()), "LISTEN_PID=$$ LISTEN_FDS=2", "3<&0 4<&0", "expected 1 socket, got 2"),
    ] {
        let (code, said) = runs(fd, exports, redirections);
        let expected = format!("cannot listen on the passed socket (LISTEN_FDS): {why}{help}");
        assert!(code == Some(69) && said.contains(&expected), "{code:?} {said}");
    }
    // Who can reach the socket decides, not the address in the settings.
    let everywhere = TcpListener::bind("0.0.0.0:0").unwrap();
    let (code, said) = runs(Some(everywhere.into()), EXPORTS, "3<&0");
    assert!(code == Some(78) && said.contains("accepts other machines, but server.keys is empty"), "{said}");
    // A socket for another process is none for this one.
    let listener = bound();
    let address = listener.local_addr().unwrap();
    let other = activated(Some(listener.into()), "LISTEN_PID=1 LISTEN_FDS=1", "3<&0");
    assert_ne!(project.serve_by(other, &[]).await.url(), format!("http://{address}"));
}
