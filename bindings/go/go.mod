module reprise

go 1.19
