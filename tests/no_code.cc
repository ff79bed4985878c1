// The only file of dlrun_test_headers, which exists for its precompiled headers.
