//! Operations that were given up and may still be at work on the server, until they are cancelled.

use std::sync::Mutex;

/// Connections noted at most; beyond that the server is on its own.
const NOTED_MAX: usize = 1_024;

/// Key of a CancelRequest. The secret makes sure that no other session's statement is cancelled, also if the
/// process id has been given to another since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendKey {
    pub(crate) pid: u32,
    pub(crate) secret: Vec<u8>,
}

/// The keys of connections that were given up while something was in flight. Sessions note, the control plane
/// takes.
#[derive(Debug, Default)]
pub struct GivenUp(Mutex<Vec<BackendKey>>);

impl GivenUp {
    #[cold]
    pub(crate) fn note(&self, key: BackendKey) {
        if let Ok(mut noted) = self.0.lock()
            && noted.len() < NOTED_MAX
        {
            noted.push(key);
        }
    }

    /// The oldest one, which is forgotten here.
    pub(crate) fn take(&self) -> Option<BackendKey> {
        let mut noted = self.0.lock().ok()?;
        (!noted.is_empty()).then(|| noted.remove(0))
    }
}

impl BackendKey {
    /// "Message Formats", CancelRequest: length, the code 80877102, process id, secret.
    pub(crate) fn cancel_request(&self) -> Vec<u8> {
        let mut message = (12 + self.secret.len() as u32).to_be_bytes().to_vec();
        message.extend_from_slice(&80_877_102_u32.to_be_bytes());
        message.extend_from_slice(&self.pid.to_be_bytes());
        message.extend_from_slice(&self.secret);
        message
    }
}
