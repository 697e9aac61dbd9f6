//! The token of a standing stream, which is checked repeatedly.

use super::check::{Bearer, TokenChecker};
use super::introspection::FRESH;
use std::sync::Arc;
use std::time::Duration;

/// A valid token that is checked repeatedly while a stream is open.
pub struct HeldToken {
    checker: Arc<TokenChecker>,
    token: String,
    owner: String,
}

impl HeldToken {
    /// Creates a check of a holder's token.
    pub fn new(checker: Arc<TokenChecker>, token: &str, bearer: &Bearer) -> Self {
        Self { checker, token: token.to_owned(), owner: bearer.owner.clone() }
    }

    /// Waits until a request with the token would be rejected. The token is checked every 30 seconds, and
    /// when it expires.
    pub async fn lapsed(&self) {
        loop {
            let wait = match self.checker.check(&self.token).await {
                Ok(bearer) if bearer.owner == self.owner => bearer.counts_for(),
                _ => return,
            };
            // A token is valid until the end of the second in which it expires.
            let wait = wait.map_or(FRESH, |left| FRESH.min(left + Duration::from_secs(1)));
            tokio::time::sleep(wait).await;
        }
    }
}
