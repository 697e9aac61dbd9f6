//! The references for measurements of the host: a bare proxy of the same libraries, and nginx if installed.

use super::{Project, Server};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use std::process::Command;
use tokio::net::TcpListener;

/// Forwards bytes without parsing them.
pub(crate) async fn proxy(service: String) {
    let client = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build().unwrap();
    serve(Router::new().fallback(forward).with_state((client, service)).layer(no_limit())).await;
}

fn no_limit() -> axum::extract::DefaultBodyLimit {
    axum::extract::DefaultBodyLimit::disable()
}

async fn forward(
    State((client, service)): State<(reqwest::Client, String)>,
    uri: Uri,
    body: Bytes,
) -> Response {
    let request = client.post(format!("{service}{uri}")).body(body);
    let answer = request.header("content-type", "application/json").send().await.unwrap();
    let mut response = Response::builder().status(answer.status());
    for name in ["content-type", "content-length"] {
        if let Some(value) = answer.headers().get(name) {
            response = response.header(name, value);
        }
    }
    response.body(Body::from_stream(answer.bytes_stream())).unwrap()
}

/// Prints its address to stderr.
#[allow(clippy::print_stderr)] // that is how `Server::start` reads the address
pub(crate) async fn serve(router: Router) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    eprintln!("http://{}", listener.local_addr().unwrap());
    let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, router).await.unwrap();
}

/// Returns the path of nginx: from `PATH`, or a usual location.
pub(crate) fn nginx() -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.map(|folder| folder.join("nginx")).find(|file| file.is_file())
}

/// Starts nginx as a reverse proxy: one process, keep-alive connections, no buffering.
pub(crate) fn start_nginx(nginx: &std::path::Path, service: &str, folder: &Project) -> Server {
    // The port was free a moment ago. nginx receives the address as an argument and prints nothing.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let upstream = service.trim_start_matches("http://");
    let work = folder.path().display();
    let kept = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("{what}_temp_path {work}/{what};"))
        .join(" ");
    let text = format!(
        "daemon off; master_process off; pid {work}/pid; error_log stderr warn;
events {{ worker_connections 1024; }}
http {{
  access_log off; {kept}
  client_body_buffer_size 2m; client_max_body_size 64m; keepalive_requests 10000000; tcp_nodelay on;
  upstream service {{ server {upstream}; keepalive 64; keepalive_requests 10000000; }}
  server {{
    listen {address};
    location / {{
      proxy_pass http://service; proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_buffering off;
    }}
  }}
}}
"
    );
    let file = folder.path().join("nginx.conf");
    std::fs::write(&file, text).unwrap();
    Server::at(Command::new(nginx).arg("-p").arg(folder.path()).arg("-c").arg(file), &address)
}
