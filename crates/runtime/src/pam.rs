//! Passwords that PAM checks.
//!
//! libpam is opened when it is first needed, so the program can be built and run where it is not installed. Its
//! functions and structures are those of `security/pam_appl.h` of Linux-PAM, whose binary interface is stable.
#![allow(unsafe_code)]

use libc::{c_char, c_int, c_void};
use pgweir_auth::Password;
use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::OnceLock;
use zeroize::Zeroizing;

const PAM_SUCCESS: c_int = 0;
const PAM_BUF_ERR: c_int = 5;
const PAM_CONV_ERR: c_int = 19;
const PAM_RHOST: c_int = 4;
const PAM_SILENT: c_int = 0x8000;
const PAM_PROMPT_ECHO_OFF: c_int = 1;
const PAM_PROMPT_ECHO_ON: c_int = 2;

/// The most messages that a module may send at once: PAM_MAX_NUM_MSG.
const MESSAGES_MAX: c_int = 32;

/// `struct pam_message`.
#[repr(C)]
struct Message {
    style: c_int,
    text: *const c_char,
}

/// `struct pam_response`.
#[repr(C)]
struct Response {
    text: *mut c_char,
    code: c_int,
}

type Converse = unsafe extern "C" fn(c_int, *mut *const Message, *mut *mut Response, *mut c_void) -> c_int;

/// `struct pam_conv`.
#[repr(C)]
struct Conversation {
    converse: Converse,
    data: *mut c_void,
}

/// `pam_handle_t`, an opaque type.
type Handle = c_void;

type Start = unsafe extern "C" fn(*const c_char, *const c_char, *const Conversation, *mut *mut Handle) -> c_int;
type SetItem = unsafe extern "C" fn(*mut Handle, c_int, *const c_void) -> c_int;
type Step = unsafe extern "C" fn(*mut Handle, c_int) -> c_int;
type Describe = unsafe extern "C" fn(*mut Handle, c_int) -> *const c_char;

/// The functions of libpam.
struct Pam {
    start: Start,
    set_item: SetItem,
    authenticate: Step,
    acct_mgmt: Step,
    strerror: Describe,
    end: Step,
}

/// Whether the modules of `service` accept the password and the account. Blocks without a time limit. The error is for
/// the log.
pub(crate) fn check(service: &str, user: &str, host: &str, password: &Password) -> Result<(), String> {
    static PAM: OnceLock<Result<Pam, String>> = OnceLock::new();
    let pam = PAM.get_or_init(Pam::open).as_ref().map_err(Clone::clone)?;
    let text = |what: &str| CString::new(what).map_err(|_| "a name contains a zero byte".to_owned());
    let (service, user, host) = (text(service)?, text(user)?, text(host)?);
    let mut secret = password.as_bytes().to_vec();
    secret.push(0);
    let secret = Zeroizing::new(secret);
    let conversation = Conversation {
        converse,
        data: secret.as_ptr().cast_mut().cast(),
    };
    let mut handle = ptr::null_mut();
    // SAFETY: the strings end in a zero byte, and like the conversation they outlive the handle, which ends below.
    let status = unsafe { (pam.start)(service.as_ptr(), user.as_ptr(), &conversation, &mut handle) };
    if status != PAM_SUCCESS {
        return Err(pam.failed("pam_start", handle, status));
    }
    let verdict = pam.judge(handle, &host);
    let status = verdict.as_ref().map_or_else(|(status, _)| *status, |()| PAM_SUCCESS);
    // SAFETY: pam_start has made the handle, and it is not used afterwards.
    unsafe { (pam.end)(handle, status) };
    verdict.map_err(|(_, why)| why)
}

impl Pam {
    fn open() -> Result<Pam, String> {
        // SAFETY: the name ends in a zero byte. The library is never closed.
        let library = unsafe { libc::dlopen(c"libpam.so.0".as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if library.is_null() {
            return Err("libpam.so.0 cannot be opened; it is in Debian's package libpam0g".into());
        }
        let symbol = |name: &CStr| {
            // SAFETY: the library is open, and the name ends in a zero byte.
            let found = unsafe { libc::dlsym(library, name.as_ptr()) };
            if found.is_null() {
                Err(format!("libpam.so.0 has no function {}", name.to_string_lossy()))
            } else {
                Ok(found)
            }
        };
        // SAFETY: these are the types that pam_appl.h declares for functions of these names.
        unsafe {
            Ok(Pam {
                start: std::mem::transmute::<*mut c_void, Start>(symbol(c"pam_start")?),
                set_item: std::mem::transmute::<*mut c_void, SetItem>(symbol(c"pam_set_item")?),
                authenticate: std::mem::transmute::<*mut c_void, Step>(symbol(c"pam_authenticate")?),
                acct_mgmt: std::mem::transmute::<*mut c_void, Step>(symbol(c"pam_acct_mgmt")?),
                strerror: std::mem::transmute::<*mut c_void, Describe>(symbol(c"pam_strerror")?),
                end: std::mem::transmute::<*mut c_void, Step>(symbol(c"pam_end")?),
            })
        }
    }

    fn judge(&self, handle: *mut Handle, host: &CStr) -> Result<(), (c_int, String)> {
        let step = |name: &str, status: c_int| match status {
            PAM_SUCCESS => Ok(()),
            status => Err((status, self.failed(name, handle, status))),
        };
        // SAFETY: the handle is that of pam_start; PAM copies the host.
        unsafe {
            step("pam_set_item", (self.set_item)(handle, PAM_RHOST, host.as_ptr().cast()))?;
            step("pam_authenticate", (self.authenticate)(handle, PAM_SILENT))?;
            // The password is right, but the account may have expired.
            step("pam_acct_mgmt", (self.acct_mgmt)(handle, PAM_SILENT))
        }
    }

    fn failed(&self, name: &str, handle: *mut Handle, status: c_int) -> String {
        // SAFETY: Linux-PAM does not use the handle; the text is a constant.
        let text = unsafe { (self.strerror)(handle, status) };
        if text.is_null() {
            return format!("{name}() failed: error {status}");
        }
        // SAFETY: it is not null, and ends in a zero byte.
        format!("{name}() failed: {}", unsafe { CStr::from_ptr(text) }.to_string_lossy())
    }
}

/// Answers the modules' questions: with the password if the answer must not be shown. There is nobody to answer other
/// questions.
///
/// # Safety
///
/// PAM calls this with an array of `count` messages, and with the conversation's data: a password that ends in a zero
/// byte.
unsafe extern "C" fn converse(
    count: c_int,
    messages: *mut *const Message,
    responses: *mut *mut Response,
    data: *mut c_void,
) -> c_int {
    if !(1..=MESSAGES_MAX).contains(&count) || messages.is_null() || responses.is_null() || data.is_null() {
        return PAM_CONV_ERR;
    }
    let count = count as usize;
    // SAFETY: calloc has no other precondition; PAM frees what it gets.
    let answers = unsafe { libc::calloc(count, size_of::<Response>()) }.cast::<Response>();
    if answers.is_null() {
        return PAM_BUF_ERR;
    }
    let mut status = PAM_SUCCESS;
    for at in 0..count {
        // SAFETY: there are `count` messages and answers; strdup copies up to the zero byte.
        unsafe {
            match (**messages.add(at)).style {
                PAM_PROMPT_ECHO_OFF => {
                    let copy = libc::strdup(data.cast());
                    (*answers.add(at)).text = copy;
                    if copy.is_null() {
                        status = PAM_BUF_ERR;
                    }
                }
                PAM_PROMPT_ECHO_ON => status = PAM_CONV_ERR,
                // Errors and information, which nobody would read.
                _ => {}
            }
        }
    }
    if status != PAM_SUCCESS {
        for at in 0..count {
            // SAFETY: each text is null or was made by strdup above.
            unsafe { libc::free((*answers.add(at)).text.cast()) };
        }
        // SAFETY: calloc has made it, and PAM does not get it.
        unsafe { libc::free(answers.cast()) };
        return status;
    }
    // SAFETY: PAM has given the place.
    unsafe { *responses = answers };
    PAM_SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A conversation about messages of these styles, with the password `sesame`.
    fn answers(styles: &[c_int]) -> Result<Vec<Option<String>>, c_int> {
        let messages: Vec<Message> = styles
            .iter()
            .map(|&style| Message {
                style,
                text: ptr::null(),
            })
            .collect();
        let mut pointers: Vec<*const Message> = messages.iter().map(ptr::from_ref).collect();
        let mut responses = ptr::null_mut();
        let password = c"sesame";
        let count = c_int::try_from(styles.len()).unwrap();
        // SAFETY: the arguments are those that PAM would pass.
        let status = unsafe {
            converse(
                count,
                pointers.as_mut_ptr(),
                &mut responses,
                password.as_ptr().cast_mut().cast(),
            )
        };
        if status != PAM_SUCCESS {
            assert!(responses.is_null());
            return Err(status);
        }
        let texts = (0..styles.len()).map(|at| {
            // SAFETY: there are as many responses as messages, and each text is null or belongs to its response.
            unsafe {
                let text = (*responses.add(at)).text;
                let copy = (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned());
                libc::free(text.cast());
                copy
            }
        });
        let texts = texts.collect();
        // SAFETY: converse has allocated it.
        unsafe { libc::free(responses.cast()) };
        Ok(texts)
    }

    #[test]
    fn only_hidden_prompts_get_the_password() {
        let sesame = || Some("sesame".to_owned());
        assert_eq!(answers(&[PAM_PROMPT_ECHO_OFF]), Ok(vec![sesame()]));
        assert_eq!(answers(&[3, PAM_PROMPT_ECHO_OFF, 4]), Ok(vec![None, sesame(), None]));
        assert_eq!(answers(&[PAM_PROMPT_ECHO_OFF, PAM_PROMPT_ECHO_ON]), Err(PAM_CONV_ERR));
        assert_eq!(answers(&[]), Err(PAM_CONV_ERR));
        assert_eq!(answers(&[PAM_PROMPT_ECHO_OFF; 33]), Err(PAM_CONV_ERR));
    }

    /// Without a file for the service, the behaviour of Linux-PAM depends on the machine, but it always refuses.
    #[test]
    fn a_service_that_does_not_exist_lets_nobody_in() {
        let verdict = check(
            "pgweir-no-such-service",
            "nobody-of-this-name",
            "127.0.0.1",
            &Password::from("x"),
        );
        assert!(verdict.is_err());
        assert!(check("a", "b\0c", "127.0.0.1", &Password::from("x")).is_err());
    }
}
