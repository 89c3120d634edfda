//! Why the console refuses a command.

use pgweir_wire::write::ErrorText;

/// PgBouncer's words for a command without the name of a database.
const DATABASE_REQUIRED: &str = "a database is required";

/// An ERROR on the console; the connection goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(super) sqlstate: &'static str,
    pub(super) message: String,
    pub(super) detail: String,
    pub(super) hint: String,
}

impl Refusal {
    fn new(sqlstate: &'static str, message: impl Into<String>) -> Self {
        Refusal {
            sqlstate,
            message: message.into(),
            detail: String::new(),
            hint: String::new(),
        }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    pub(crate) fn invalid_command(command: &str) -> Self {
        Refusal::new("42601", format!("invalid command '{command}', use SHOW HELP;"))
            .hint("The console takes one command at a time; SHOW HELP lists them.")
    }

    pub(crate) fn admin_only() -> Self {
        Refusal::new("42501", "admin access needed")
            .hint("Users of the setting stats_users may use SHOW only; add the user to admin_users.")
    }

    pub(crate) fn database_required() -> Self {
        Refusal::new("42601", DATABASE_REQUIRED)
    }

    /// Whether the command is known, and lacks its argument.
    pub(crate) fn is_about_argument(&self) -> bool {
        self.message == DATABASE_REQUIRED
    }

    pub(crate) fn no_such_database(name: &str) -> Self {
        Refusal::new("3D000", format!("no such database: {name}")).hint("SHOW DATABASES lists them.")
    }

    /// A command that would stop the console's database.
    pub(crate) fn console_database(verb: &str, name: &str) -> Self {
        let verb = if verb == "wait_close" { "wait in" } else { verb };
        Refusal::new("42809", format!("cannot {verb} admin db: {name}"))
    }

    pub(crate) fn not_in_state(message: impl Into<String>) -> Self {
        Refusal::new("55000", message)
    }

    pub(crate) fn bad_client_id() -> Self {
        Refusal::new("22023", "invalid client pointer supplied")
            .hint("KILL_CLIENT and SHOW SESSION take the column id of SHOW CLIENTS.")
    }

    pub(crate) fn no_such_client() -> Self {
        Refusal::new("42704", "client not found")
            .hint("KILL_CLIENT and SHOW SESSION take the column id of SHOW CLIENTS.")
    }

    /// A setting refuses its new value.
    pub(crate) fn set_failed(problem: &pgweir_config::Problem) -> Self {
        Refusal::new("22023", format!("SET failed: {}", problem.message)).hint(problem.hint.clone().unwrap_or_default())
    }

    /// The new configuration has errors, and the old one stays. The message is PgBouncer's.
    pub(crate) fn reload_failed(problems: &[pgweir_config::Problem]) -> Self {
        let errors = problems.iter().filter(|p| p.severity == pgweir_config::Severity::Error);
        let lines: Vec<String> = errors.map(pgweir_config::Problem::line).collect();
        Refusal::new("F0000", "RELOAD failed, see logs for additional details")
            .detail(lines.join("\n"))
            .hint("The old configuration stays. Correct the file and give RELOAD again; `pgweir check FILE` reads it without a running pooler.")
    }

    /// A command waited for something that cannot happen any more.
    pub(crate) fn given_up(verb: &str, why: &str) -> Self {
        Refusal::new("57014", format!("{verb} was ended by {why}"))
    }

    pub(crate) fn duplicate_statement(name: &str) -> Self {
        Refusal::new("42P05", format!("prepared statement \"{name}\" already exists"))
    }

    pub(crate) fn no_such_statement(name: &str) -> Self {
        Refusal::new("26000", format!("prepared statement \"{name}\" does not exist"))
    }

    pub(crate) fn duplicate_portal(name: &str) -> Self {
        Refusal::new("42P03", format!("portal \"{name}\" already exists"))
    }

    pub(crate) fn no_such_portal(name: &str) -> Self {
        Refusal::new("34000", format!("portal \"{name}\" does not exist"))
    }

    /// More statements or portals than a console client may have.
    pub(crate) fn too_many(what: &str, max: usize) -> Self {
        Refusal::new("53400", format!("too many {what}: expected at most {max}"))
    }

    /// The portals of a console client keep too many bytes of tables.
    pub(crate) fn too_much_kept(bytes_max: usize) -> Self {
        let mib = bytes_max / (1024 * 1024);
        let message = format!("too many rows wait in portals: expected at most {mib} MiB");
        Refusal::new("53400", message)
            .hint("Read the tables to their end or close their portals, or end the transaction.")
    }

    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Refusal::new("08P01", message)
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn text(&self) -> ErrorText<'_> {
        ErrorText {
            severity: "ERROR",
            sqlstate: self.sqlstate,
            message: &self.message,
            detail: &self.detail,
            hint: &self.hint,
        }
    }
}
