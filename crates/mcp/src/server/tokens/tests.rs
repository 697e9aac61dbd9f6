//! TokenChecker of a real issuer on loopback, with real keys, and of those who are none.

use super::{TokenChecker, TokenRefusal};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use valvehouse_config::ResourceServer;
use valvehouse_testkit::loopback::Server;

const RESOURCE: &str = "https://house.example/mcp";

/// A key of an issuer.
enum Key {
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Key {
    fn ec() -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random);
        Self::Ec(key.unwrap())
    }

    fn ed() -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
    }

    fn published(&self, name: &str) -> Value {
        match self {
            Self::Ec(key) => {
                let (x, y) = key.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "use": "sig", "kid": name, "x": text(x), "y": text(y) })
            }
            Self::Ed(key) => {
                let x = text(key.public_key().as_ref());
                json!({ "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": name, "x": x })
            }
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Ec(key) => key.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec(),
            Self::Ed(key) => key.sign(message).as_ref().to_vec(),
        }
    }

    fn token(&self, header: Value, claims: &Value) -> String {
        let message = format!("{}.{}", text(header.to_string()), text(claims.to_string()));
        format!("{message}.{}", text(self.sign(message.as_bytes())))
    }
}

fn text(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// An issuer that publishes these keys, and counts how often it is asked for them.
struct Issuer {
    server: Server,
    keys: Arc<Mutex<Vec<Value>>>,
    looks: Arc<AtomicUsize>,
    is_away: Arc<AtomicBool>,
}

impl Issuer {
    async fn start(keys: Vec<Value>) -> Self {
        let (keys, looks) = (Arc::new(Mutex::new(keys)), Arc::new(AtomicUsize::new(0)));
        let is_away = Arc::new(AtomicBool::new(false));
        let (published, counted, away) = (keys.clone(), looks.clone(), is_away.clone());
        let server = Server::start(move |request| {
            if away.load(Relaxed) {
                return b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n".to_vec();
            }
            let host = request.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
            let is_metadata =
                |path: &str| request.starts_with(&format!("GET {path}/.well-known/openid-configuration "));
            let body = if is_metadata("") || is_metadata("/tenant") {
                json!({ "issuer": format!("http://{host}"), "jwks_uri": format!("http://{host}/keys") })
            } else if request.starts_with("GET /keys ") {
                counted.fetch_add(1, Relaxed);
                json!({ "keys": *published.lock() })
            } else {
                return b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec();
            };
            let body = body.to_string();
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
            .into_bytes()
        })
        .await;
        Self { server, keys, looks, is_away }
    }

    fn name(&self) -> String {
        self.server.url("")
    }

    fn claims(&self) -> Value {
        json!({ "iss": self.name(), "sub": "ann", "aud": RESOURCE, "exp": now() + 600, "scope": "tools more" })
    }

    fn tokens(&self) -> TokenChecker {
        tokens(&[self.name()])
    }
}

fn tokens(issuers: &[String]) -> TokenChecker {
    let settings = ResourceServer {
        authorization_servers: issuers.to_vec(),
        resource: RESOURCE.parse().unwrap(),
        scopes: vec!["tools".into()],
        user_claim: "sub".into(),
        mcp_tools: None,
    };
    TokenChecker::new(&settings).unwrap()
}

fn with(claims: &Value, key: &str, value: Value) -> Value {
    let mut claims = claims.clone();
    claims[key] = value;
    claims
}

fn without(claims: &Value, key: &str) -> Value {
    let mut claims = claims.clone();
    claims.as_object_mut().unwrap().remove(key);
    claims
}

#[tokio::test]
async fn a_token_of_an_issuer_names_its_user() {
    let (ec, ed) = (Key::ec(), Key::ed());
    let unreadable = json!({ "kty": "new", "kid": "later" });
    let issuer = Issuer::start(vec![unreadable, ec.published("one"), ed.published("two")]).await;
    let tokens = issuer.tokens();
    let claims = with(&issuer.claims(), "name", json!("Ann"));
    let first = tokens.check(&ec.token(json!({ "alg": "ES256", "kid": "one" }), &claims)).await.unwrap();
    assert_eq!(first.user.text("id").as_deref(), Some("ann"));
    assert_eq!(first.user.text("name").as_deref(), Some("Ann"));
    assert_eq!(first.user.field("scopes").to_string(), r#"["tools","more"]"#);
    let claims = with(&without(&claims, "scope"), "scp", json!(["tools"]));
    let claims = with(&claims, "aud", json!(["other", RESOURCE]));
    let second = tokens.check(&ed.token(json!({ "alg": "EdDSA", "kid": "two" }), &claims)).await.unwrap();
    assert_eq!(first.owner, second.owner);
    let few = with(&claims, "scp", json!(["more"]));
    let refused = tokens.check(&ed.token(json!({ "alg": "EdDSA", "kid": "two" }), &few)).await.unwrap_err();
    assert_eq!(refused, TokenRefusal::Scopes(vec!["tools".into()]));
    assert_eq!(issuer.looks.load(Relaxed), 1);
}

#[tokio::test]
async fn the_same_name_of_two_issuers_is_two_users() {
    let key = Key::ec();
    let (one, two) =
        (Issuer::start(vec![key.published("k")]).await, Issuer::start(vec![key.published("k")]).await);
    let tokens = tokens(&[one.name(), two.name()]);
    let header = json!({ "alg": "ES256", "kid": "k" });
    let first = tokens.check(&key.token(header.clone(), &one.claims())).await.unwrap();
    let second = tokens.check(&key.token(header, &two.claims())).await.unwrap();
    assert_ne!(first.user.text("id"), second.user.text("id"));
    assert_ne!(first.owner, second.owner);
}

#[tokio::test]
async fn a_token_that_its_issuer_did_not_make_for_this_host_now_does_not_count() {
    let (own, thief) = (Key::ec(), Key::ec());
    let published = own.published("k");
    let ed = Key::ed();
    let issuer = Issuer::start(vec![published.clone(), ed.published("ed")]).await;
    let (tokens, good) = (issuer.tokens(), issuer.claims());
    let header = json!({ "alg": "ES256", "kid": "k" });
    let signed = |claims: Value| own.token(header.clone(), &claims);
    assert!(tokens.check(&signed(good.clone())).await.is_ok());

    let unsigned = format!("{}.{}.", text(r#"{"alg":"none","kid":"k"}"#), text(good.to_string()));
    // The public key as the secret of a HMAC.
    let message = format!("{}.{}", text(r#"{"alg":"HS256","kid":"k"}"#), text(good.to_string()));
    let Key::Ec(pair) = &own else { unreachable!() };
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, pair.public_key().as_ref());
    let confused = format!("{message}.{}", text(ring::hmac::sign(&secret, message.as_bytes())));
    let valid = signed(good.clone());
    let (head, tail) = (valid.split('.').next().unwrap(), valid.rsplit('.').next().unwrap());
    let changed = format!("{head}.{}.{tail}", text(with(&good, "sub", json!("root")).to_string()));
    let own_key = json!({ "alg": "ES256", "jwk": thief.published("k"), "kid": "k" });
    let cases = [
        ("alg none", unsigned),
        ("alg None", format!("{}.{}.", text(r#"{"alg":"None"}"#), text(good.to_string()))),
        ("a HMAC", confused),
        ("another's signature", thief.token(header.clone(), &good)),
        ("a key in the header", thief.token(own_key, &good)),
        ("a changed claim", changed),
        ("no signature", format!("{head}.{}.", text(good.to_string()))),
        ("another audience", signed(with(&good, "aud", json!("https://other.example/mcp")))),
        ("no audience", signed(without(&good, "aud"))),
        ("an empty audience", signed(with(&good, "aud", json!([])))),
        ("expired", signed(with(&good, "exp", json!(now() - 60)))),
        ("no end", signed(without(&good, "exp"))),
        ("an end that is a text", signed(with(&good, "exp", json!("tomorrow")))),
        ("a negative end", signed(with(&good, "exp", json!(-1)))),
        ("not yet", signed(with(&good, "nbf", json!(now() + 600)))),
        ("another issuer", signed(with(&good, "iss", json!("https://evil.example")))),
        ("no issuer", signed(without(&good, "iss"))),
        ("several issuers", signed(with(&good, "iss", json!([issuer.name()])))),
        ("no user", signed(without(&good, "sub"))),
        ("an empty user", signed(with(&good, "sub", json!("")))),
        ("a user that is a number", signed(with(&good, "sub", json!(7)))),
        ("an unknown key", own.token(json!({ "alg": "ES256", "kid": "other" }), &good)),
        ("one of several keys", own.token(json!({ "alg": "ES256" }), &good)),
        ("a key of another kind", own.token(json!({ "alg": "ES256", "kid": "ed" }), &good)),
        ("an extension", own.token(json!({ "alg": "ES256", "kid": "k", "crit": ["b64"] }), &good)),
        ("too long", signed(with(&good, "more", json!("x".repeat(20_000))))),
        ("four parts", format!("{valid}.{tail}")),
        ("no token", "sk-guess".into()),
        ("nothing", String::new()),
    ];
    for (case, token) in cases {
        let refused = tokens.check(&token).await;
        assert!(
            matches!(refused, Err(TokenRefusal::Invalid(_) | TokenRefusal::Foreign(_))),
            "{case}: {refused:?}"
        );
    }
    assert!(tokens.check(&valid).await.is_ok());
}

#[tokio::test]
async fn a_flood_of_unknown_keys_asks_the_issuer_once() {
    let key = Key::ec();
    let issuer = Issuer::start(vec![key.published("k")]).await;
    let tokens = issuer.tokens();
    let flood = (0..200).map(|number| {
        let token = key.token(json!({ "alg": "ES256", "kid": format!("k{number}") }), &issuer.claims());
        let tokens = &tokens;
        async move { tokens.check(&token).await }
    });
    for refused in futures::future::join_all(flood).await {
        assert!(matches!(refused, Err(TokenRefusal::Invalid(_))), "{refused:?}");
    }
    assert_eq!(issuer.looks.load(Relaxed), 1);
    let valid = key.token(json!({ "alg": "ES256", "kid": "k" }), &issuer.claims());
    assert!(tokens.check(&valid).await.is_ok());
}

#[tokio::test]
async fn a_new_key_is_found_and_an_old_one_outlives_an_issuer_that_is_away() {
    let (old, new) = (Key::ec(), Key::ec());
    let issuer = Issuer::start(vec![old.published("old")]).await;
    let tokens = issuer.tokens();
    let of = |key: &Key, name: &str| key.token(json!({ "alg": "ES256", "kid": name }), &issuer.claims());
    assert!(tokens.check(&of(&old, "old")).await.is_ok());
    *issuer.keys.lock() = vec![new.published("new")];
    assert!(tokens.check(&of(&new, "new")).await.is_err());
    pass(Duration::from_secs(11)).await;
    assert!(tokens.check(&of(&new, "new")).await.is_ok());
    // A key that the issuer took back counts no longer.
    assert!(tokens.check(&of(&old, "old")).await.is_err());
    let late = of(&new, "new");
    issuer.is_away.store(true, Relaxed);
    pass(Duration::from_secs(2 * 3_600)).await;
    assert!(tokens.check(&late).await.is_ok());
    pass(Duration::from_secs(24 * 3_600)).await;
    assert!(matches!(tokens.check(&late).await, Err(TokenRefusal::Unavailable(_))));
}

#[tokio::test]
async fn metadata_of_another_issuer_is_not_believed() {
    let key = Key::ec();
    let issuer = Issuer::start(vec![key.published("k")]).await;
    // The same server under another name says that it is somebody else.
    let tokens = tokens(&[format!("{}/tenant", issuer.name())]);
    let claims = with(&issuer.claims(), "iss", json!(tokens.settings().authorization_servers[0]));
    let refused = tokens.check(&key.token(json!({ "alg": "ES256", "kid": "k" }), &claims)).await;
    assert!(matches!(refused, Err(TokenRefusal::Unavailable(_))), "{refused:?}");
}

/// Lets this much time pass on the clock of the host alone.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}
