//! Who answered, where that was not settled beforehand: for the door that tells its client.
//!
//! It is noted beside the call and not in it: an answer is the service's own words, and between the door
//! and the provider nobody has anything to do with this.

use std::cell::RefCell;

tokio::task_local! {
    static SERVED: RefCell<Option<String>>;
}

/// Does a door's work. Beside what comes of it: `provider/model`, where one of several answered.
pub async fn noticing<T>(work: impl Future<Output = T>) -> (T, Option<String>) {
    let noticed = async {
        let done = work.await;
        (done, SERVED.with(RefCell::take))
    };
    SERVED.scope(RefCell::default(), noticed).await
}

/// Notes who answers. Without a door that wants to know it is forgotten.
pub(super) fn note(provider: &str, model: &str) {
    let _ = SERVED.try_with(|served| served.replace(Some(format!("{provider}/{model}"))));
}
