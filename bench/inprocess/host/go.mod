module inprocess

go 1.24.0
