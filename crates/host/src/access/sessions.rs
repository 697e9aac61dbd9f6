//! Who is signed in at the page. Kept in memory: after a restart everybody signs in again.

use super::digest::Digest;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use valvehouse_store::seal::random_word;

/// So long one stays signed in.
pub const LIFE: Duration = Duration::from_secs(12 * 60 * 60);
/// As many are kept; the oldest goes first.
const MOST: usize = 256;

/// All sessions, by the digests of their tokens.
#[derive(Default)]
pub struct Sessions(Mutex<HashMap<Digest, Session>>);

/// Somebody who is signed in.
#[derive(Debug, Clone)]
pub struct Session {
    /// The name of the owner, as the history writes it.
    pub by: String,
    /// The token that the page sends along with every change.
    csrf: String,
    /// The key it was signed in with: when that changes, it is over. None: no key was needed.
    pub key: Option<Digest>,
    ends: Instant,
}

/// A session that begins: only its owner ever sees the token.
pub struct Begun {
    /// The token that the owner shows from now on.
    pub token: String,
    /// The session.
    pub session: Session,
}

impl Session {
    /// The token that the page sends along.
    pub fn csrf(&self) -> &str {
        &self.csrf
    }

    /// Returns `true` if this is the token of its page.
    pub fn has_csrf(&self, given: &str) -> bool {
        Digest::of(&self.csrf).is(&Digest::of(given))
    }
}

impl Sessions {
    /// Somebody signs in.
    pub fn begin(&self, by: String, key: Option<Digest>) -> Begun {
        self.begin_at(Instant::now(), by, key)
    }

    fn begin_at(&self, now: Instant, by: String, key: Option<Digest>) -> Begun {
        let token = random_word();
        let session = Session { by, csrf: random_word(), key, ends: now + LIFE };
        let mut all = self.0.lock();
        all.retain(|_, session| session.ends > now);
        while all.len() >= MOST {
            let oldest = all.iter().min_by_key(|(_, session)| session.ends).map(|(token, _)| *token);
            oldest.and_then(|token| all.remove(&token));
        }
        all.insert(Digest::of(&token), session.clone());
        Begun { token, session }
    }

    /// The session of this token, as long as it lasts.
    pub fn of(&self, token: &str) -> Option<Session> {
        self.of_at(Instant::now(), token)
    }

    fn of_at(&self, now: Instant, token: &str) -> Option<Session> {
        self.0.lock().get(&Digest::of(token)).filter(|session| session.ends > now).cloned()
    }

    /// Somebody signs out.
    pub fn end(&self, token: &str) {
        self.0.lock().remove(&Digest::of(token));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_by_itself_and_by_signing_out() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let begun = sessions.begin_at(now, "ann".into(), None);
        assert!(sessions.of_at(now + LIFE - Duration::from_secs(1), &begun.token).is_some());
        assert!(sessions.of_at(now + LIFE, &begun.token).is_none());
        assert!(begun.session.has_csrf(begun.session.csrf()) && !begun.session.has_csrf(&begun.token));
        sessions.end(&begun.token);
        assert!(sessions.of_at(now, &begun.token).is_none());
    }

    #[test]
    fn of_too_many_sessions_the_oldest_goes() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let all: Vec<Begun> = (0..=MOST)
            .map(|second| sessions.begin_at(now + Duration::from_secs(second as u64), "ann".into(), None))
            .collect();
        assert!(sessions.of_at(now, &all[0].token).is_none());
        assert!(all[1..].iter().all(|begun| sessions.of_at(now, &begun.token).is_some()));
    }
}
