select count(*) from (select * from generate_series(1, 20000) g order by md5(g::text)) s;
