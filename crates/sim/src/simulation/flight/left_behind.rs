//! Segments that leave something behind that no view shows: a seed of random(), the plan of a function.

use super::Author;

impl Author {
    /// Segments that depend on nothing but the client's own settings, or change what others could notice.
    pub(super) fn left_behind(&mut self) -> Vec<Vec<u8>> {
        let value = self.value();
        // The number of the session.
        let seed = format!("0.{:06}", self.keys / super::KEYS);
        match self.random.below(12) {
            0..=2 => {
                let zone = self.pick(&["UTC", "Asia/Tokyo", "Europe/Paris"]);
                let set = self.pick(&[
                    &format!("set timezone = '{zone}'"),
                    &format!("select set_config('TimeZone', '{zone}', false)"),
                ]);
                self.queries(&[&set])
            }
            3 => self.queries(&[&format!("set seed = '{seed}'")]),
            4 => self.queries(&["begin", &format!("set local seed = '{seed}'"), "commit"]),
            5 => self.queries(&[&format!("select set_config('Seed', '{seed}', true)")]),
            // A name that the text does not show.
            6 => self.queries(&[&format!("select set_config(nullif('seed', 'x'), '{seed}', true)")]),
            7 => {
                self.push("Parse \"\" \"select set_config($1, $2, true)\"");
                self.push(format!("Bind \"\" \"\" values \"seed\" \"{seed}\""));
                self.push("Execute \"\" 0");
                self.push("Sync");
                vec![self.take_bytes()]
            }
            8..=9 => {
                self.push("Parse \"\" \"select folded($1)\"");
                self.push(format!("Bind \"\" \"\" values \"{value}\""));
                self.push("Execute \"\" 0");
                self.push("Sync");
                vec![self.take_bytes()]
            }
            _ => self.queries(&[&format!("select folded('{value}')")]),
        }
    }

    /// Segments that call the function, or make or drop a temporary table, which the function's plan must find.
    pub(super) fn plans_beside_tables(&mut self) -> Vec<Vec<u8>> {
        self.may_be_tied = true;
        let value = self.value();
        match self.random.below(12) {
            0..=1 => {
                let make = self.pick(&[
                    "create temp table tmp_a (v text)",
                    "create temp table tmp_b (v text)",
                    "do $$begin execute 'create temp table tmp_a (v text)'; end$$",
                ]);
                self.queries(&[&make])
            }
            2..=3 => self.queries(&[
                "begin",
                "create temp table tmp_c (v text) on commit drop",
                &format!("select folded('{value}')"),
                "commit",
            ]),
            4 => {
                self.push("Parse \"\" \"create temp table tmp_b (v text)\"");
                self.push("Bind \"\" \"\" values");
                self.push("Execute \"\" 0");
                self.push("Sync");
                vec![self.take_bytes()]
            }
            5..=6 => {
                let drop = self.pick(&["drop table tmp_a", "drop table tmp_b", "discard temp"]);
                self.queries(&[&drop])
            }
            _ => self.queries(&[&format!("select folded('{value}')")]),
        }
    }

    /// A segment for each text.
    pub(super) fn queries(&mut self, texts: &[&str]) -> Vec<Vec<u8>> {
        texts
            .iter()
            .map(|text| {
                self.push(format!("Query \"{text}\""));
                self.take_bytes()
            })
            .collect()
    }
}
